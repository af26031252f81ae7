# The CRDs of two releases, as a project would have them checked out.
for release in 1.13 1.14; do
  mkdir "crds-$release"
  served=$([ "$release" = 1.13 ] && echo true || echo false)
  cat > "crds-$release/widgets.yaml" <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1beta1, served: $served, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
END
done
