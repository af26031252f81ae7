# 300 widgets of v1alpha1, whose conditions are a list that v1beta1, by now the storage version, keys; one of them is frozen.
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
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {parts: {$3}}}}}}
  - name: v1beta1
    served: true
    storage: $2
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {parts: {$3, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name]}}
END
}
parts='type: array, items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}'
crd true false "$parts" | kubectl apply --server-side -f -
kubectl wait --for=condition=Established --timeout=60s crd/widgets.example.com
python - <<'END'
import asyncio
import json

from restow.kube import connect
from restow.kube.cluster import PatchType
from restow.kube.resources import Resource

WIDGETS = Resource("example.com", "v1alpha1", "widgets", namespaced=True)


async def main():
    async with connect() as cluster:

        async def apply(number):
            widget = {
                "apiVersion": "example.com/v1alpha1",
                "kind": "Widget",
                "metadata": {"name": f"w{number}", "namespace": "default"},
                "spec": {"parts": [{"name": "a", "size": number}]},
            }
            params = {"fieldManager": "alice"}
            body = json.dumps(widget).encode()
            await cluster.patch(WIDGETS, f"w{number}", body, "default", patch_type=PatchType.APPLY, params=params)

        for begin in range(0, 300, 30):
            await asyncio.gather(*map(apply, range(begin, begin + 30)))


asyncio.run(main())
END
crd false true "$parts" | kubectl apply --server-side -f -
kubectl apply --server-side -f - <<'END'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: ["*"], resources: [widgets], operations: [UPDATE]}]
  validations: [{expression: "object.metadata.name != 'w7'", message: it is frozen}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
END
until [[ $(kubectl label widget w7 --dry-run=server tried=yes 2>&1 || true) == *frozen* ]]; do sleep 0.2; done
