# The namespace that the webhook of the pages is in.
kubectl create namespace my-system
