"""Errors, paths, values and deeply nested JSON: the shared base of all layers of conversion."""
