// The conversions of MetalLB, as it ships them.
package main

import (
	"go.universe.tf/metallb/api/v1beta1"
	"go.universe.tf/metallb/api/v1beta2"

	"restow/tests/peers/oracles/protocol"
)

func main() {
	protocol.Serve(
		protocol.Of("BGPPeer", "metallb.io/v1beta1", "metallb.io/v1beta2",
			func(spoke *v1beta1.BGPPeer, hub *v1beta2.BGPPeer) error { return spoke.ConvertTo(hub) },
			func(spoke *v1beta1.BGPPeer, hub *v1beta2.BGPPeer) error { return spoke.ConvertFrom(hub) }),
	)
}
