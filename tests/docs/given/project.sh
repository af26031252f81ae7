# A project with the CRD that the conversions of the README are for, and a manifest of an old version.
mkdir -p config/crd manifests
cat > config/crd/profiles.yaml <<'END'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: profiles.core.example.dev}
spec:
  group: core.example.dev
  scope: Namespaced
  names: {kind: Profile, plural: profiles}
  versions:
  - name: v1
    served: true
    storage: false
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {ttl: {type: integer}, image: {type: string}}}}
  - name: v2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              timeToLive: {type: integer}
              images: {type: array, items: {type: string}}
              weight: {type: integer}
END
cat > manifests/profile.yaml <<'END'
apiVersion: core.example.dev/v1
kind: Profile
metadata: {name: a}
spec: {ttl: 60, image: x}
END
