package main // waits until restow has migrated a CRD: go run . widgets.example.com

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

func migrated(event watch.Event) (bool, error) { // as the spec is now; prints what restow says
	crd, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Deleted || crd.GetLabels()["restow.dev/migrate"] != "true" {
		return false, fmt.Errorf("the CRD is gone, or has no label restow.dev/migrate: \"true\"")
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	stored, _, _ := unstructured.NestedSlice(crd.Object, "status", "storedVersions")
	for _, each := range conditions {
		condition, _ := each.(map[string]any)
		observed, numbered := condition["observedGeneration"].(int64) // an older API server does not keep it
		if condition["type"] == "restow.dev/Migrated" && (!numbered || observed == crd.GetGeneration()) {
			fmt.Printf("%v: %v\n", condition["reason"], condition["message"])
			return condition["status"] == "True" && len(stored) == 1, nil
		}
	}
	return false, nil
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // without one the pod's account
	if err == nil {
		resource := schema.ParseGroupResource("customresourcedefinitions.apiextensions.k8s.io").WithVersion("v1")
		crds := dynamic.NewForConfigOrDie(config).Resource(resource)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err = watchtools.UntilWithSync(ctx, &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = "metadata.name=" + os.Args[1]
				return crds.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = "metadata.name=" + os.Args[1]
				return crds.Watch(ctx, o)
			},
		}, &unstructured.Unstructured{}, nil, migrated)
	}
	if err != nil {
		log.Fatal(err)
	}
}
