"""The CloudProfile family: version lifecycles (GEP-32), NamespacedCloudProfiles (GEP-25), version policy (GEP-5)."""
