module restow/tests/upstream

go 1.26.0

require (
	github.com/crossplane/crossplane/v2 v2.0.2
	github.com/gardener/gardener v1.150.0
	go.universe.tf/metallb v0.15.2
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/kueue v0.16.1
)
