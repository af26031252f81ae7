package v1

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	v2 "restow/benchmarks/peers/controllerruntime/v2"
)

// dataAnnotation has the whole object of the hub, without its metadata, as Cluster API's MarshalData writes it.
const dataAnnotation = "cluster.x-k8s.io/conversion-data"

// stash keeps an object of the hub in an annotation: the old version has no field for spec.paused.
func stash(from *v2.Profile, to *Profile) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	delete(content, "metadata")
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	to.Annotations = maps.Clone(from.Annotations)
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[dataAnnotation] = string(data)
	return nil
}

// unstash gives spec.paused back to an object of the hub, and removes the annotation.
func unstash(to *v2.Profile) error {
	data, found := to.Annotations[dataAnnotation]
	if !found {
		return nil
	}
	kept := v2.Profile{}
	if err := json.Unmarshal([]byte(data), &kept); err != nil {
		return err
	}
	to.Spec.Paused = kept.Spec.Paused
	to.Annotations = maps.Clone(to.Annotations)
	delete(to.Annotations, dataAnnotation)
	return nil
}
