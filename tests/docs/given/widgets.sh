# The CRD widgets.example.com, with objects and owners of v1alpha1, after v1beta1 has become the storage version.
crd() {
  cat <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1alpha1
    served: true
    storage: $1
    schema: &schema
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
  - {name: v1beta1, served: true, storage: $2, schema: *schema}
END
}
crd true false | kubectl apply --server-side -f -
kubectl wait --for=condition=Established --timeout=60s crd/widgets.example.com
for number in 1 2 3; do
  kubectl apply --server-side --field-manager=alice -f - <<END
apiVersion: example.com/v1alpha1
kind: Widget
metadata: {name: w$number, namespace: default}
spec: {size: $number}
END
done
crd false true | kubectl apply --server-side -f -
