"""What converts objects for a migration: a Protocol, and a CRD's own webhook behind it."""
