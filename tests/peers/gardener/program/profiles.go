package main

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/gardener/pkg/apis/core"
	"github.com/gardener/gardener/pkg/apis/core/v1beta1"
	cloudprofilestrategy "github.com/gardener/gardener/pkg/apiserver/registry/core/cloudprofile"
	namespacedstrategy "github.com/gardener/gardener/pkg/apiserver/registry/core/namespacedcloudprofile"
	"github.com/gardener/gardener/pkg/controllermanager/controller/namespacedcloudprofile"
	"github.com/gardener/gardener/plugin/pkg/global/resourcereferencemanager"
	"github.com/gardener/gardener/plugin/pkg/namespacedcloudprofile/validator"
)

type judged struct {
	replacement
	// Whole says that nothing is dropped from a profile before it is validated.
	Whole bool `json:"whole"`
}

// profile judges a CloudProfile as the API server does, without its admission plugins, and returns what it stores.
func profile(in judged) (any, error) {
	updated, old, err := pair[core.CloudProfile](in.replacement)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	var found *verdict
	if old == nil {
		if !in.Whole {
			cloudprofilestrategy.Strategy.PrepareForCreate(ctx, updated)
		}
		found = invalid(cloudprofilestrategy.Strategy.Validate(ctx, updated))
	} else {
		cloudprofilestrategy.Strategy.PrepareForUpdate(ctx, updated, old)
		updated.ResourceVersion, old.ResourceVersion = "1", "1"
		found = invalid(cloudprofilestrategy.Strategy.ValidateUpdate(ctx, updated, old))
	}
	if found != nil {
		return found, nil
	}
	cloudprofilestrategy.Strategy.Canonicalize(updated)
	stored, err := external[v1beta1.CloudProfile](updated)
	return verdict{Object: stored}, err
}

type child struct {
	judged
	Parent json.RawMessage `json:"parent"`
}

// namespaced judges a NamespacedCloudProfile as the API server does, its own admission plugin included.
func namespaced(in child) (any, error) {
	updated, old, err := pair[core.NamespacedCloudProfile](in.replacement)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	var found *verdict
	var before runtime.Object
	if old == nil {
		if !in.Whole {
			namespacedstrategy.Strategy.PrepareForCreate(ctx, updated)
		}
		found = invalid(namespacedstrategy.Strategy.Validate(ctx, updated))
	} else {
		before = old.DeepCopy()
		asSent := updated.Spec.DeepCopy()
		namespacedstrategy.Strategy.PrepareForUpdate(ctx, updated, old)
		if in.Whole {
			updated.Spec = *asSent
		}
		updated.ResourceVersion, old.ResourceVersion = "1", "1"
		found = invalid(namespacedstrategy.Strategy.ValidateUpdate(ctx, updated, old))
	}
	if found != nil {
		return found, nil
	}
	plugin, err := validator.New()
	if err != nil {
		return nil, err
	}
	factory, err := world{Profiles: []json.RawMessage{in.Parent}}.informers()
	if err != nil {
		return nil, err
	}
	plugin.SetCoreInformerFactory(factory)
	plugin.AssignReadyFunc(func() bool { return true })
	asked := attributes("NamespacedCloudProfile", "namespacedcloudprofiles", updated.Namespace, updated.Name, updated.DeepCopy(), before)
	if found := refused(plugin.Validate(ctx, asked, nil)); found != nil {
		return found, nil
	}
	stored, err := external[v1beta1.NamespacedCloudProfile](updated)
	return verdict{Object: stored}, err
}

type merge struct {
	Parent json.RawMessage `json:"parent"`
	Child  json.RawMessage `json:"child"`
}

// render returns the CloudProfile spec that a NamespacedCloudProfile makes of its parent's.
func render(in merge) (any, error) {
	parent, err := defaulted[v1beta1.CloudProfile](in.Parent)
	if err != nil {
		return nil, err
	}
	child, err := defaulted[v1beta1.NamespacedCloudProfile](in.Child)
	if err != nil {
		return nil, err
	}
	namespacedcloudprofile.MergeCloudProfiles(child, parent)
	return child.Status.CloudProfileSpec, nil
}

type protected struct {
	replacement
	world
	Kind string `json:"kind"`
}

// protect asks the plugin that keeps what is in use: may this profile replace that one?
func protect(in protected) (any, error) {
	plugin, err := resourcereferencemanager.New()
	if err != nil {
		return nil, err
	}
	factory, err := in.informers()
	if err != nil {
		return nil, err
	}
	plugin.SetCoreInformerFactory(factory)
	plugin.AssignReadyFunc(func() bool { return true })
	ctx := context.Background()
	if in.Kind == "CloudProfile" {
		updated, old, err := pair[core.CloudProfile](in.replacement)
		if err != nil {
			return nil, err
		}
		return refusal(plugin.Validate(ctx, attributes(in.Kind, "cloudprofiles", metav1.NamespaceNone, updated.Name, updated, old), nil)), nil
	}
	updated, old, err := pair[core.NamespacedCloudProfile](in.replacement)
	if err != nil {
		return nil, err
	}
	return refusal(plugin.Validate(ctx, attributes(in.Kind, "namespacedcloudprofiles", updated.Namespace, updated.Name, updated, old), nil)), nil
}

func refusal(err error) verdict {
	if found := refused(err); found != nil {
		return *found
	}
	return verdict{}
}
