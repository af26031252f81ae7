"""``restow references`` on a cluster of many objects and Helm releases, next to kubectl with jq, and to Helm."""
