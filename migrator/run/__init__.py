"""The migration of CRDs: begin, pass, prove, prune, mark."""
