package main

import (
	"encoding/json"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	"github.com/gardener/gardener/pkg/apis/core"
	"github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
)

// lifecycle returns the classification of every version of a spec, and when the next one changes.
func lifecycle(spec v1beta1.CloudProfileSpec) (any, error) {
	kubernetes := []string{}
	for _, version := range spec.Kubernetes.Versions {
		kubernetes = append(kubernetes, classification(version))
	}
	images := [][]string{}
	for _, image := range spec.MachineImages {
		versions := []string{}
		for _, version := range image.Versions {
			versions = append(versions, classification(version.ExpirableVersion))
		}
		images = append(images, versions)
	}
	var next any
	if duration := v1beta1helper.DurationUntilNextVersionTransition(&spec, time.Now()); duration > 0 {
		next = time.Now().Add(duration).UTC().Format(time.RFC3339Nano)
	}
	return map[string]any{"kubernetes": kubernetes, "images": images, "next": next}, nil
}

func classification(version v1beta1.ExpirableVersion) string {
	at := string(v1beta1helper.CurrentLifecycleClassification(version))
	agrees := v1beta1helper.VersionIsExpired(version) == (at == "expired") &&
		v1beta1helper.VersionIsActive(version) == (at != "expired" && at != "unavailable") &&
		v1beta1helper.VersionIsSupported(version) == (at == "supported") &&
		v1beta1helper.VersionIsPreview(version) == (at == "preview") &&
		v1beta1helper.VersionIsDeprecated(version) == (at == "deprecated")
	if !agrees {
		panic("the helpers contradict each other about " + version.Version)
	}
	return at
}

type updates struct {
	Versions []v1beta1.ExpirableVersion `json:"versions"`
	Current  string                     `json:"current"`
}

// targets returns what each way to choose an update chooses; empty for none.
func targets(in updates) (any, error) {
	found := map[string]string{}
	for name, choose := range map[string]func([]v1beta1.ExpirableVersion, string) (bool, string, error){
		"patch":             v1beta1helper.GetLatestVersionForPatchAutoUpdate,
		"minor":             v1beta1helper.GetLatestVersionForMinorAutoUpdate,
		"overall":           v1beta1helper.GetOverallLatestVersionForAutoUpdate,
		"consecutive minor": v1beta1helper.GetVersionForForcefulUpdateToConsecutiveMinor,
		"next minor":        v1beta1helper.GetVersionForForcefulUpdateToNextHigherMinor,
		"next major":        v1beta1helper.GetVersionForForcefulUpdateToNextHigherMajor,
	} {
		is, version, err := choose(in.Versions, in.Current)
		switch {
		case err != nil:
			found[name] = "error: " + err.Error()
		case is:
			found[name] = version
		default:
			found[name] = ""
		}
	}
	return found, nil
}

type replacement struct {
	New json.RawMessage `json:"new"`
	Old json.RawMessage `json:"old"`
}

// synchronise returns a CloudProfile's spec with its architectures and capabilities in step, as it is stored.
func synchronise(in replacement) (any, error) {
	updated, old, err := pair[core.CloudProfile](in)
	if err != nil {
		return nil, err
	}
	if old == nil {
		old = &core.CloudProfile{}
	}
	gardenerutils.SyncArchitectureCapabilityFields(updated.Spec, old.Spec)
	gardenerutils.SyncArchitectureCapabilityFields(updated.Spec, core.CloudProfileSpec{})
	return external[v1beta1.CloudProfile](updated)
}
