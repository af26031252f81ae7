// manifestcheck decodes manifests strictly into the Go types of the projects that define them, and parses the
// PromQL in them: for kinds whose CRDs are not available, so that no API server can check their fields.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kinds are those that are checked; every other one is left to the API server.
var kinds = map[string]func() any{
	"cert-manager.io/v1/Certificate":          func() any { return new(certmanager.Certificate) },
	"cert-manager.io/v1/Issuer":               func() any { return new(certmanager.Issuer) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

type named struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

func main() {
	checked, err := check(os.Stdin)
	for _, each := range checked {
		fmt.Println(each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns which documents of a stream were checked, and everything that is wrong with them.
func check(stream io.Reader) (checked []string, wrong error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(stream))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return checked, wrong
		}
		if err != nil {
			return checked, errors.Join(wrong, err)
		}
		var head named
		if err := yaml.Unmarshal(document, &head); err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		what := head.Kind + " " + head.Metadata.Name
		made, known := kinds[head.APIVersion+"/"+head.Kind]
		if !known {
			continue
		}
		object := made()
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", what, err))
			continue
		}
		if rules, is := object.(*monitoring.PrometheusRule); is {
			wrong = errors.Join(wrong, checkExpressions(what, rules))
		}
		checked = append(checked, what)
	}
}

func checkExpressions(what string, rules *monitoring.PrometheusRule) (wrong error) {
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			if _, err := parser.ParseExpr(rule.Expr.String()); err != nil {
				wrong = errors.Join(wrong, fmt.Errorf("%s: %s%s: %w", what, rule.Alert, rule.Record, err))
			}
		}
	}
	return wrong
}
