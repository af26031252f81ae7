// The verdicts of crdify, as its command gives them without a configuration file.
//
// A line in is {"old": …, "new": …}, two CustomResourceDefinitions. The line out for it is {"results": …}, what
// crdify's -o json prints, {"error": …}, or {"panic": …}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
)

type request struct {
	Old apiextensionsv1.CustomResourceDefinition `json:"old"`
	New apiextensionsv1.CustomResourceDefinition `json:"new"`
}

type response struct {
	Results *runner.Results `json:"results,omitempty"`
	Error   string          `json:"error,omitempty"`
	Panic   string          `json:"panic,omitempty"`
}

func main() {
	cfg := &config.Config{}
	fail(config.ValidateConfig(cfg))
	run, err := runner.New(cfg, runner.DefaultRegistry())
	fail(err)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<28)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		fail(json.NewEncoder(out).Encode(answer(run, lines.Bytes())))
		fail(out.Flush())
	}
	fail(lines.Err())
}

func answer(run *runner.Runner, line []byte) (said response) {
	defer func() {
		if reason := recover(); reason != nil {
			said = response{Panic: fmt.Sprint(reason)}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return response{Error: err.Error()}
	}
	return response{Results: run.Run(&asked.Old, &asked.New)}
}

func fail(err error) {
	if err != nil {
		panic(err)
	}
}
