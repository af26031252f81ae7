"""Options, reports and findings of a migration, and the Protocols that an embedder implements."""
