package v1

import (
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v2 "restow/benchmarks/peers/controllerruntime/v2"
)

const (
	supported = "supported"
	expired   = "expired"
)

// ConvertTo makes the object one of the hub's.
func (p *Profile) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v2.Profile)
	to.ObjectMeta = p.ObjectMeta
	if err := unstash(to); err != nil {
		return err
	}
	to.Status.ObservedGeneration = p.Status.ObservedGeneration
	to.Status.Conditions = each(p.Status.Conditions, func(condition Condition) v2.Condition {
		return v2.Condition(condition)
	})
	to.Spec.Kubernetes.Versions = each(p.Spec.Kubernetes.Versions, func(version Version) v2.Version {
		return v2.Version{
			Version:   version.Version,
			Lifecycle: lifecycle(version.Classification, version.ExpirationDate),
		}
	})
	to.Spec.MachineImages = each(p.Spec.MachineImages, func(image MachineImage) v2.MachineImage {
		return v2.MachineImage{
			Name:           image.Name,
			UpdateStrategy: image.UpdateStrategy,
			Versions: each(image.Versions, func(version ImageVersion) v2.ImageVersion {
				return v2.ImageVersion{
					Version:       version.Version,
					Lifecycle:     lifecycle(version.Classification, version.ExpirationDate),
					Architectures: version.Architectures,
				}
			}),
		}
	})
	to.Spec.MachineTypes = each(p.Spec.MachineTypes, func(machine MachineType) v2.MachineType {
		return v2.MachineType(machine)
	})
	to.Spec.Regions = each(p.Spec.Regions, func(region Region) v2.Region {
		zones := each(region.Zones, func(zone Zone) v2.Zone { return v2.Zone(zone) })
		return v2.Region{Name: region.Name, Zones: zones}
	})
	return nil
}

// ConvertFrom makes the object from one of the hub's.
func (p *Profile) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v2.Profile)
	p.ObjectMeta = from.ObjectMeta
	if from.Spec.Paused {
		if err := stash(from, p); err != nil {
			return err
		}
	}
	p.Status.ObservedGeneration = from.Status.ObservedGeneration
	p.Status.Conditions = each(from.Status.Conditions, func(condition v2.Condition) Condition {
		return Condition(condition)
	})
	p.Spec.Kubernetes.Versions = each(from.Spec.Kubernetes.Versions, func(version v2.Version) Version {
		classification, expiration := fields(version.Lifecycle)
		return Version{Version: version.Version, Classification: classification, ExpirationDate: expiration}
	})
	p.Spec.MachineImages = each(from.Spec.MachineImages, func(image v2.MachineImage) MachineImage {
		return MachineImage{
			Name:           image.Name,
			UpdateStrategy: image.UpdateStrategy,
			Versions: each(image.Versions, func(version v2.ImageVersion) ImageVersion {
				classification, expiration := fields(version.Lifecycle)
				return ImageVersion{
					Version:        version.Version,
					Classification: classification,
					ExpirationDate: expiration,
					Architectures:  version.Architectures,
				}
			}),
		}
	})
	p.Spec.MachineTypes = each(from.Spec.MachineTypes, func(machine v2.MachineType) MachineType {
		return MachineType(machine)
	})
	p.Spec.Regions = each(from.Spec.Regions, func(region v2.Region) Region {
		zones := each(region.Zones, func(zone v2.Zone) Zone { return Zone(zone) })
		return Region{Name: region.Name, Zones: zones}
	})
	return nil
}

func each[From, To any](items []From, convert func(From) To) []To {
	if items == nil {
		return nil
	}
	converted := make([]To, len(items))
	for index, item := range items {
		converted[index] = convert(item)
	}
	return converted
}

// lifecycle returns the stages that the old fields mean.
func lifecycle(classification, expiration string) []v2.Stage {
	if classification == "" && expiration == "" {
		return nil
	}
	if classification == "" {
		classification = supported
	}
	stages := []v2.Stage{{Classification: classification}}
	if expiration != "" {
		stages = append(stages, v2.Stage{Classification: expired, StartTime: expiration})
	}
	return stages
}

// fields returns what the old version shows of a lifecycle.
func fields(stages []v2.Stage) (classification, expiration string) {
	for _, stage := range stages {
		if stage.Classification == expired {
			expiration = stage.StartTime
		} else {
			classification = stage.Classification
		}
	}
	return classification, expiration
}
