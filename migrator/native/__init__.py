"""The cluster's own StorageVersionMigration, as an engine of a migration."""
