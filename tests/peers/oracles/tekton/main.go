// The conversions of Tekton Pipelines, as it ships them. Tekton's webhook sets defaults after a conversion; this does not.
package main

import (
	"context"

	v1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"

	"restow/tests/peers/oracles/protocol"
)

const (
	spoke = "tekton.dev/v1beta1"
	hub   = "tekton.dev/v1"
)

func main() {
	ctx := context.Background()
	protocol.Serve(
		protocol.Of("Task", spoke, hub,
			func(spoke *v1beta1.Task, hub *v1.Task) error { return spoke.ConvertTo(ctx, hub) },
			func(spoke *v1beta1.Task, hub *v1.Task) error { return spoke.ConvertFrom(ctx, hub) }),
		protocol.Of("TaskRun", spoke, hub,
			func(spoke *v1beta1.TaskRun, hub *v1.TaskRun) error { return spoke.ConvertTo(ctx, hub) },
			func(spoke *v1beta1.TaskRun, hub *v1.TaskRun) error { return spoke.ConvertFrom(ctx, hub) }),
	)
}
