"""What restow leaves in a cluster: the table of it (``written``), and its removal (``leftovers``)."""
