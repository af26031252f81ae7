"""The verdict on an upgrade of CRDs before they are applied: their sources, schemas, stored objects and clients."""
