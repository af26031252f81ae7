"""One reader for each place that can name a version; pure."""
