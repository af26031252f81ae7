"""Errors, paths, values and deeply nested JSON: what every layer of conversion shares."""
