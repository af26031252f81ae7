// The conversions of kubebuilder's CronJob tutorial. The tutorial is no Go module that can be pinned, so its types and
// its conversion stand in api/; the CRD is generated from them by the tutorial's own generator.
package main

import (
	v1 "restow/tests/peers/oracles/cronjob/api/v1"
	v2 "restow/tests/peers/oracles/cronjob/api/v2"
	"restow/tests/peers/oracles/protocol"
)

const (
	spoke = "batch.tutorial.kubebuilder.io/v2"
	hub   = "batch.tutorial.kubebuilder.io/v1"
)

func main() {
	protocol.Serve(
		protocol.Of("CronJob", spoke, hub,
			func(spoke *v2.CronJob, hub *v1.CronJob) error { return spoke.ConvertTo(hub) },
			func(spoke *v2.CronJob, hub *v1.CronJob) error { return spoke.ConvertFrom(hub) }),
	)
}
