"""Who names a CRD by one of its versions: found in the whole cluster, in audit logs and in files."""
