// The conversions of Kueue, as it ships them.
package main

import (
	"sigs.k8s.io/kueue/apis/kueue/v1beta1"
	"sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"restow/tests/peers/oracles/protocol"
)

const (
	spoke = "kueue.x-k8s.io/v1beta1"
	hub   = "kueue.x-k8s.io/v1beta2"
)

func main() {
	protocol.Serve(
		protocol.Of("ClusterQueue", spoke, hub,
			func(spoke *v1beta1.ClusterQueue, hub *v1beta2.ClusterQueue) error { return spoke.ConvertTo(hub) },
			func(spoke *v1beta1.ClusterQueue, hub *v1beta2.ClusterQueue) error { return spoke.ConvertFrom(hub) }),
		protocol.Of("Workload", spoke, hub,
			func(spoke *v1beta1.Workload, hub *v1beta2.Workload) error { return spoke.ConvertTo(hub) },
			func(spoke *v1beta1.Workload, hub *v1beta2.Workload) error { return spoke.ConvertFrom(hub) }),
	)
}
