# A ConfigMap that belongs to the widget w1, by a reference at v1alpha1.
uid=$(kubectl get widgets.example.com w1 --namespace default -o jsonpath='{.metadata.uid}')
kubectl apply --server-side --field-manager=controller -f - <<END
apiVersion: v1
kind: ConfigMap
metadata:
  name: w1-settings
  namespace: default
  ownerReferences: [{apiVersion: example.com/v1alpha1, kind: Widget, name: w1, uid: $uid}]
END
