"""Automatic version management: its configuration and its rules (versioning policy). Pure."""
