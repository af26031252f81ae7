"""What a migration is asked for and what it reports: values, and the Protocols of what an embedder gives."""
