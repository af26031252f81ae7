// What Gardener's own code says of CloudProfiles, NamespacedCloudProfiles and Shoots: JSON lines in, JSON lines out.
//
// A line in is {"ask": …, "now": …, "gate": …, "input": …}: the function, the time, whether the feature gate
// VersionClassificationLifecycle is on, and what the function takes. The line out is {"answer": …}, {"error": …} if the
// line makes no sense to the program, or {"panic": …} if Gardener's code panicked. The order stays.
//
// Gardener reads the time from time.Now. So each line is answered in a bubble of testing/synctest, whose clock stands
// exactly at "now": times that are equal to it can be asked about.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener/pkg/apiserver/features"
	gardenerfeatures "github.com/gardener/gardener/pkg/features"
)

type request struct {
	Ask   string          `json:"ask"`
	Now   time.Time       `json:"now"`
	Gate  bool            `json:"gate"`
	Input json.RawMessage `json:"input"`
}

type response struct {
	Answer any    `json:"answer,omitempty"`
	Error  string `json:"error,omitempty"`
	Panic  string `json:"panic,omitempty"`
}

var functions = map[string]func(json.RawMessage) (any, error){
	"lifecycle":   of(lifecycle),
	"targets":     of(targets),
	"synchronise": of(synchronise),
	"profile":     of(profile),
	"namespaced":  of(namespaced),
	"render":      of(render),
	"protect":     of(protect),
	"shoot":       of(shoot),
	"move":        of(move),
	"maintain":    of(maintain),
	"window":      of(window),
}

func of[I any](ask func(I) (any, error)) func(json.RawMessage) (any, error) {
	return func(raw json.RawMessage) (any, error) {
		var input I
		if err := json.Unmarshal(raw, &input); err != nil {
			return nil, fmt.Errorf("the input cannot be read: %w", err)
		}
		return ask(input)
	}
}

func main() {
	features.RegisterFeatureGates()
	klog.SetLogger(logr.Discard())
	logf.SetLogger(logr.Discard())
	all := func(_, _ string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "oracle", F: serve}}, nil, nil)
}

func serve(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<28)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		if err := encoder.Encode(answer(t, lines.Bytes())); err != nil {
			fail(encoder.Encode(response{Error: fmt.Sprintf("the answer cannot be written: %v", err)}))
		}
		fail(out.Flush())
	}
	fail(lines.Err())
}

func answer(t *testing.T, line []byte) (said response) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return response{Error: fmt.Sprintf("the request cannot be read: %v", err)}
	}
	function, known := functions[asked.Ask]
	if !known {
		return response{Error: fmt.Sprintf("there is no function %q", asked.Ask)}
	}
	fail(utilfeature.DefaultFeatureGate.(featuregate.MutableFeatureGate).SetFromMap(map[string]bool{
		string(gardenerfeatures.VersionClassificationLifecycle): asked.Gate,
		string(gardenerfeatures.InPlaceNodeUpdates):             true,
	}))
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if reason := recover(); reason != nil {
				said = response{Panic: fmt.Sprint(reason)}
			}
		}()
		time.Sleep(time.Until(asked.Now))
		if now := time.Now(); !now.Equal(asked.Now) {
			said = response{Error: fmt.Sprintf("the clock cannot stand at %v: it begins at %v", asked.Now, now)}
			return
		}
		found, err := function(asked.Input)
		if err != nil {
			said = response{Error: err.Error()}
			return
		}
		said = response{Answer: found}
	})
	return said
}

func fail(err error) {
	if err != nil {
		panic(err)
	}
}
