// The conversions of Cluster API, as it ships them.
package main

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/api/core/v1beta1"
	"sigs.k8s.io/cluster-api/api/core/v1beta2"

	"restow/tests/peers/oracles/protocol"
)

const (
	spoke = "cluster.x-k8s.io/v1beta1"
	hub   = "cluster.x-k8s.io/v1beta2"
)

func main() {
	// Cluster API's controller looks the version of a reference up in the cluster. Here it is always the same.
	v1beta1.SetAPIVersionGetter(func(kind schema.GroupKind) (string, error) {
		return kind.Group + "/v1beta2", nil
	})
	protocol.Serve(
		protocol.Of("Cluster", spoke, hub,
			func(spoke *v1beta1.Cluster, hub *v1beta2.Cluster) error { return spoke.ConvertTo(hub) },
			func(spoke *v1beta1.Cluster, hub *v1beta2.Cluster) error { return spoke.ConvertFrom(hub) }),
		protocol.Of("Machine", spoke, hub,
			func(spoke *v1beta1.Machine, hub *v1beta2.Machine) error { return spoke.ConvertTo(hub) },
			func(spoke *v1beta1.Machine, hub *v1beta2.Machine) error { return spoke.ConvertFrom(hub) }),
		protocol.Of("MachineDeployment", spoke, hub,
			func(spoke *v1beta1.MachineDeployment, hub *v1beta2.MachineDeployment) error {
				return spoke.ConvertTo(hub)
			},
			func(spoke *v1beta1.MachineDeployment, hub *v1beta2.MachineDeployment) error {
				return spoke.ConvertFrom(hub)
			}),
		protocol.Of("MachineHealthCheck", spoke, hub,
			func(spoke *v1beta1.MachineHealthCheck, hub *v1beta2.MachineHealthCheck) error {
				return spoke.ConvertTo(hub)
			},
			func(spoke *v1beta1.MachineHealthCheck, hub *v1beta2.MachineHealthCheck) error {
				return spoke.ConvertFrom(hub)
			}),
	)
}
