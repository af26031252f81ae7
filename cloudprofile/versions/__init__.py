"""The versions that profiles offer: numbers, lifecycles (GEP-32), and candidates for updates. Pure."""
