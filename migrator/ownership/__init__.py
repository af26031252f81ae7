"""The owners of an object's fields, and their translation to another version. Pure."""
