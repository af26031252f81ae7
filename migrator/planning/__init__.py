"""Plan a migration, show the status of CRDs, and decide whether a version may be removed, without storing anything."""
