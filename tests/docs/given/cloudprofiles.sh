# The CRDs of CloudProfiles, at whose stored version no webhook is asked.
kubectl apply --server-side -f crds/manifests/
kubectl wait --for=condition=Established --timeout=60s -f crds/manifests/
