"""What the wiring of a CRD or of a webhook configuration should be: decisions over documents, without any request."""
