# The namespace of the operator of CloudProfiles.
kubectl create namespace restow-system
