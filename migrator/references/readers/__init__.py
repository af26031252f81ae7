"""One reader for each sort of place that can name a version. Pure."""
