module restow/tests/upstream

go 1.26.0

require (
	github.com/gardener/gardener v1.150.0
	sigs.k8s.io/cluster-api v1.14.2
)
