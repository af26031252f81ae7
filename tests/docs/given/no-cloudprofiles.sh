# A cluster as it was before the CRDs of CloudProfiles, for another way to install them.
kubectl delete --ignore-not-found mutatingwebhookconfiguration,validatingwebhookconfiguration restow-cloudprofile
kubectl delete --ignore-not-found -f crds/manifests/
