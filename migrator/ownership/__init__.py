"""Who owns which field of an object, and what becomes of that at another version. Pure."""
