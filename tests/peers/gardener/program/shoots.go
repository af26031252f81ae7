package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener/pkg/api/core/validation"
	"github.com/gardener/gardener/pkg/apis/core"
	"github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	securityinformers "github.com/gardener/gardener/pkg/client/security/informers/externalversions"
	"github.com/gardener/gardener/pkg/controllermanager/controller/shoot/maintenance"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/plugin/pkg/shoot/mutator"
	"github.com/gardener/gardener/plugin/pkg/shoot/validator"
	kubeinformers "k8s.io/client-go/informers"
)

type asked struct {
	replacement
	world
}

// shoot sends a Shoot through the steps of the API server that are about its profile: defaults, the mutating plugin, the
// fields that are in step with each other, static validation, the validating plugin.
func shoot(in asked) (any, error) {
	updated, old, err := pair[core.Shoot](in.replacement)
	if err != nil {
		return nil, err
	}
	factory, err := in.informers()
	if err != nil {
		return nil, err
	}
	var before runtime.Object
	complete(updated)
	if old != nil {
		complete(old)
		updated.ResourceVersion, old.ResourceVersion = "1", "1"
		updated.UID, old.UID = "1", "1"
		before = old
	}
	ctx := context.Background()
	mutating, err := mutator.New()
	if err != nil {
		return nil, err
	}
	mutating.SetCoreInformerFactory(factory)
	mutating.AssignReadyFunc(func() bool { return true })
	if found := refused(mutating.Admit(ctx, attributes("Shoot", "shoots", updated.Namespace, updated.Name, updated, before), nil)); found != nil {
		return found, nil
	}
	gardenerutils.SyncCloudProfileFields(old, updated)
	errs := validation.ValidateShoot(updated)
	if old != nil {
		errs = validation.ValidateShootUpdate(updated, old)
	}
	if found := invalid(errs); found != nil {
		return found, nil
	}
	validating, err := validator.New()
	if err != nil {
		return nil, err
	}
	project := &v1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1beta1.ProjectSpec{Namespace: &updated.Namespace}}
	fail(factory.Core().V1beta1().Projects().Informer().GetStore().Add(project))
	validating.SetCoreInformerFactory(factory)
	validating.SetKubeInformerFactory(kubeinformers.NewSharedInformerFactory(nil, 0))
	security := securityinformers.NewSharedInformerFactory(nil, 0)
	fail(security.Security().V1alpha1().CredentialsBindings().Informer().GetStore().Add(&securityv1alpha1.CredentialsBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: updated.Namespace, Name: binding},
		Provider:   securityv1alpha1.CredentialsBindingProvider{Type: updated.Spec.Provider.Type},
	}))
	validating.SetSecurityInformerFactory(security)
	validating.AssignReadyFunc(func() bool { return true })
	if found := refused(validating.Validate(ctx, attributes("Shoot", "shoots", updated.Namespace, updated.Name, updated, before), nil)); found != nil {
		return found, nil
	}
	stored, err := external[v1beta1.Shoot](updated)
	return verdict{Object: stored}, err
}

const binding = "credentials"

// complete gives a Shoot what restow has no fields for, and Gardener asks of every Shoot.
func complete(shoot *core.Shoot) {
	if shoot.Spec.Networking == nil {
		shoot.Spec.Networking = &core.Networking{}
	}
	shoot.Spec.Networking.Type = ptr.To("calico")
	shoot.Spec.Networking.Nodes = ptr.To("10.250.0.0/16")
	shoot.Spec.CredentialsBindingName = ptr.To(binding)
}

// move says whether a Shoot may change its profile.
func move(in asked) (any, error) {
	updated, old, err := pair[core.Shoot](in.replacement)
	if err != nil {
		return nil, err
	}
	factory, err := in.informers()
	if err != nil {
		return nil, err
	}
	listed := factory.Core().V1beta1()
	return refusal(gardenerutils.ValidateCloudProfileChanges(
		listed.CloudProfiles().Lister(), listed.NamespacedCloudProfiles().Lister(), updated, old,
	)), nil
}

type maintained struct {
	Shoot   json.RawMessage `json:"shoot"`
	Profile json.RawMessage `json:"profile"`
}

// maintain reconciles a Shoot that asks to be maintained now, and returns it as it is written.
func maintain(in maintained) (any, error) {
	shoot, err := defaulted[v1beta1.Shoot](in.Shoot)
	if err != nil {
		return nil, err
	}
	profile, err := defaulted[v1beta1.CloudProfile](in.Profile)
	if err != nil {
		return nil, err
	}
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.ShootOperationMaintain)
	server := &server{shoot: shoot, profile: profile}
	reconciler := maintenance.Reconciler{Client: server, Clock: clock.RealClock{}, Recorder: events.NewFakeRecorder(100)}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(shoot)}
	if _, err := reconciler.Reconcile(context.Background(), request); err != nil {
		return map[string]any{"failed": err.Error()}, nil
	}
	return map[string]any{"spec": server.shoot.Spec, "lastMaintenance": server.shoot.Status.LastMaintenance}, nil
}

// server is an API server with one Shoot and its profile.
type server struct {
	client.Client
	shoot   *v1beta1.Shoot
	profile *v1beta1.CloudProfile
}

func (s *server) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch found := object.(type) {
	case *v1beta1.Shoot:
		s.shoot.DeepCopyInto(found)
	case *v1beta1.CloudProfile:
		s.profile.DeepCopyInto(found)
	default:
		return fmt.Errorf("nobody should ask for a %T", object)
	}
	return nil
}

func (s *server) Update(_ context.Context, object client.Object, options ...client.UpdateOption) error {
	applied := (&client.UpdateOptions{}).ApplyOptions(options)
	if len(applied.DryRun) == 0 {
		status := s.shoot.Status
		s.shoot = object.(*v1beta1.Shoot).DeepCopy()
		s.shoot.Status = status
	}
	return nil
}

func (s *server) Status() client.SubResourceWriter {
	return statusWriter{server: s}
}

type statusWriter struct {
	client.SubResourceWriter
	server *server
}

func (w statusWriter) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	w.server.shoot.Status = *object.(*v1beta1.Shoot).Status.DeepCopy()
	return nil
}

type times struct {
	Begin *string `json:"begin"`
	End   *string `json:"end"`
}

// window says what validation has against a maintenance time window, and whether the time is in it.
func window(in times) (any, error) {
	shoot := &v1beta1.Shoot{}
	given := &core.Maintenance{}
	if in.Begin != nil && in.End != nil {
		shoot.Spec.Maintenance = &v1beta1.Maintenance{TimeWindow: &v1beta1.MaintenanceTimeWindow{Begin: *in.Begin, End: *in.End}}
		given.TimeWindow = &core.MaintenanceTimeWindow{Begin: *in.Begin, End: *in.End}
	}
	wrong := []finding{}
	for _, err := range validation.ValidateShoot(&core.Shoot{Spec: core.ShootSpec{Maintenance: given}}) {
		if found := findingOf(err); strings.HasPrefix(found.Field, "spec.maintenance.timeWindow") {
			wrong = append(wrong, found)
		}
	}
	return map[string]any{
		"findings": wrong,
		"inside":   gardenerutils.IsNowInEffectiveShootMaintenanceTimeWindow(shoot, clock.RealClock{}),
		"now":      time.Now().UTC().Format(time.RFC3339),
	}, nil
}
