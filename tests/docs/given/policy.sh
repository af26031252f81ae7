# The policy of a project.
cp docs/examples/timeline/cluster-api.yaml policy.yaml
