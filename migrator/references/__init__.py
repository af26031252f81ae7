"""Find references to versions of a CRD in the whole cluster, in audit logs and in files."""
