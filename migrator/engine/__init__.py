"""List, convert, write, pace: one pass over the objects of a CRD, and every request about the CRD itself."""
