"""CloudProfiles and NamespacedCloudProfiles: rendering, the rules of admission, status and finalizer. Pure."""
