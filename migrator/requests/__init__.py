"""Run one pass over the objects of a CRD (list, convert, write, pace), and send requests about the CRD itself."""
