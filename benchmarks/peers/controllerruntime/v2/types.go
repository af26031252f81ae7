// Package v2 has the kind Profile at its hub version.
package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the types.
var GroupVersion = schema.GroupVersion{Group: "bench.restow.dev", Version: "v2"}

// AddToScheme makes the types known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Profile{})
	return nil
}

type Profile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProfileSpec   `json:"spec,omitempty"`
	Status ProfileStatus `json:"status,omitempty"`
}

type ProfileSpec struct {
	Kubernetes    Kubernetes     `json:"kubernetes,omitempty"`
	MachineImages []MachineImage `json:"machineImages,omitempty"`
	MachineTypes  []MachineType  `json:"machineTypes,omitempty"`
	Regions       []Region       `json:"regions,omitempty"`
	Paused        bool           `json:"paused,omitempty"`
}

type Kubernetes struct {
	Versions []Version `json:"versions,omitempty"`
}

type Version struct {
	Version   string  `json:"version"`
	Lifecycle []Stage `json:"lifecycle,omitempty"`
}

type Stage struct {
	Classification string `json:"classification"`
	StartTime      string `json:"startTime,omitempty"`
}

type MachineImage struct {
	Name           string         `json:"name"`
	UpdateStrategy string         `json:"updateStrategy,omitempty"`
	Versions       []ImageVersion `json:"versions,omitempty"`
}

type ImageVersion struct {
	Version       string   `json:"version"`
	Lifecycle     []Stage  `json:"lifecycle,omitempty"`
	Architectures []string `json:"architectures,omitempty"`
}

type MachineType struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture,omitempty"`
	CPU          string `json:"cpu,omitempty"`
	Memory       string `json:"memory,omitempty"`
	Usable       bool   `json:"usable"`
}

type Region struct {
	Name  string `json:"name"`
	Zones []Zone `json:"zones,omitempty"`
}

type Zone struct {
	Name string `json:"name"`
}

type ProfileStatus struct {
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	Conditions         []Condition `json:"conditions,omitempty"`
}

type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// Hub marks the version that all others convert to and from.
func (*Profile) Hub() {}

// DeepCopyObject is what a scheme asks of its types. No review needs it.
func (p *Profile) DeepCopyObject() runtime.Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err)
	}
	copied := &Profile{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, copied); err != nil {
		panic(err)
	}
	return copied
}
