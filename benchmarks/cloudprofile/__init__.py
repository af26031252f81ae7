"""``restow operator`` with a large CloudProfile, many NamespacedCloudProfiles on it and many Shoots."""
