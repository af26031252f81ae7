"""Static validation: rules for one profile alone, and against the object that it replaces. Pure.

The rules are Gardener's; if an example of the documents breaks one, it only causes a warning (the latest Kubernetes
version may have an expiration). Every profile is validated with Gardener's defaults filled in
(``restow.cloudprofile.capabilities``). Paths and types of findings are those of Gardener's API server.
"""
