package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gardener/gardener/pkg/api"
	"github.com/gardener/gardener/pkg/apis/core"
	"github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardencoreinformers "github.com/gardener/gardener/pkg/client/core/informers/externalversions"
)

// internal decodes an object of v1beta1 with its defaults, as the API server does; nil for none.
func internal[O any](raw json.RawMessage) (*O, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	decoded, err := runtime.Decode(api.Codecs.UniversalDecoder(core.SchemeGroupVersion), raw)
	if err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	object, is := any(decoded).(*O)
	if !is {
		return nil, fmt.Errorf("this is a %T", decoded)
	}
	return object, nil
}

func pair[O any](in replacement) (*O, *O, error) {
	updated, err := internal[O](in.New)
	if err != nil {
		return nil, nil, err
	}
	if updated == nil {
		return nil, nil, errors.New("there is no object")
	}
	old, err := internal[O](in.Old)
	return updated, old, err
}

// external returns an object at v1beta1.
func external[E any](object runtime.Object) (*E, error) {
	converted := new(E)
	return converted, api.Scheme.Convert(object, converted, nil)
}

// defaulted decodes an object of v1beta1 with its defaults, and leaves it there.
func defaulted[O any](raw json.RawMessage) (*O, error) {
	decoded, _, err := api.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("the object cannot be read: %w", err)
	}
	api.Scheme.Default(decoded)
	object, is := any(decoded).(*O)
	if !is {
		return nil, fmt.Errorf("this is a %T", decoded)
	}
	return object, nil
}

type finding struct {
	Type   string `json:"type"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// verdict is what an API server answers: the object as it would be stored, or why not.
type verdict struct {
	Findings []finding `json:"findings"`
	Code     int32     `json:"code"`
	Said     string    `json:"said"`
	Object   any       `json:"object,omitempty"`
}

func invalid(errs field.ErrorList) *verdict {
	if len(errs) == 0 {
		return nil
	}
	found := verdict{Code: 422}
	for _, err := range errs {
		found.Findings = append(found.Findings, findingOf(err))
	}
	return &found
}

func findingOf(err *field.Error) finding {
	return finding{Type: strings.TrimPrefix(string(err.Type), "FieldValue"), Field: err.Field, Detail: err.ErrorBody()}
}

// refused returns an error of an admission plugin; what it does not say of fields is in "said".
func refused(err error) *verdict {
	if err == nil {
		return nil
	}
	found := verdict{Said: err.Error(), Code: 403}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		found.Code = status.Status().Code
	}
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		for _, each := range several.Errors() {
			var of *field.Error
			if errors.As(each, &of) {
				found.Findings = append(found.Findings, findingOf(of))
			}
		}
	}
	return &found
}

func attributes(kind, resource, namespace, name string, object, old runtime.Object) admission.Attributes {
	operation := admission.Create
	if old != nil {
		operation = admission.Update
	}
	return admission.NewAttributesRecord(
		object, old, core.Kind(kind).WithVersion("version"), namespace, name,
		schema.GroupVersionResource{Group: core.GroupName, Version: "v1beta1", Resource: resource}, "",
		operation, nil, false, &user.DefaultInfo{Name: "somebody"},
	)
}

// world is what the listers of the admission plugins find.
type world struct {
	Profiles   []json.RawMessage `json:"profiles"`
	Namespaced []json.RawMessage `json:"namespaced"`
	Shoots     []json.RawMessage `json:"shoots"`
}

func (w world) informers() (gardencoreinformers.SharedInformerFactory, error) {
	factory := gardencoreinformers.NewSharedInformerFactory(nil, 0)
	listed := factory.Core().V1beta1()
	for _, raw := range w.Profiles {
		object, err := defaulted[v1beta1.CloudProfile](raw)
		if err != nil {
			return nil, err
		}
		fail(listed.CloudProfiles().Informer().GetStore().Add(object))
	}
	for _, raw := range w.Namespaced {
		object, err := defaulted[v1beta1.NamespacedCloudProfile](raw)
		if err != nil {
			return nil, err
		}
		fail(listed.NamespacedCloudProfiles().Informer().GetStore().Add(object))
	}
	for _, raw := range w.Shoots {
		object, err := defaulted[v1beta1.Shoot](raw)
		if err != nil {
			return nil, err
		}
		fail(listed.Shoots().Informer().GetStore().Add(object))
	}
	return factory, nil
}
