# The CRDs of the example provider, in a cluster.
kubectl apply --server-side -f docs/examples/provider/manifests/
