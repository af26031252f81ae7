"""Compare ``restow references`` with kubectl with jq, and with Helm, on many objects and Helm releases."""
