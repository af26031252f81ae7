"""One migration of one CRD by several processes."""
