// The conversions of the Prometheus operator, as it ships them.
package main

import (
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1beta1"

	"restow/tests/peers/oracles/protocol"
)

func main() {
	// The hub of the project is the older version, v1alpha1.
	protocol.Serve(
		protocol.Of("AlertmanagerConfig", "monitoring.coreos.com/v1beta1", "monitoring.coreos.com/v1alpha1",
			func(spoke *v1beta1.AlertmanagerConfig, hub *v1alpha1.AlertmanagerConfig) error {
				return spoke.ConvertTo(hub)
			},
			func(spoke *v1beta1.AlertmanagerConfig, hub *v1alpha1.AlertmanagerConfig) error {
				return spoke.ConvertFrom(hub)
			}),
	)
}
