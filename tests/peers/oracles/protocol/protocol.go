// Package protocol lets a program convert objects for a test: JSON lines in, JSON lines out.
//
// A line in is {"kind": …, "from": …, "to": …, "object": …}, with apiVersions as "from" and "to". The line out for it is
// {"object": …}, {"error": …} if the conversion returned an error, or {"panic": …} if it panicked. The order stays.
//
// Objects are read as a webhook of controller-runtime reads them: case-sensitive, integers as integers.
package protocol

import (
	"bufio"
	stdjson "encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/json"
)

// Convert is one direction of a kind's conversion: JSON of the one version in, a value of the other version's type out.
type Convert func(object []byte) (any, error)

// Kind has the conversions of one kind between two apiVersions.
type Kind struct {
	Name        string
	Spoke, Hub  string
	ToHub, From Convert
}

// Of returns the conversions of a kind, made of the two functions of its project.
func Of[S, H any](name, spoke, hub string, toHub func(*S, *H) error, fromHub func(*S, *H) error) Kind {
	return Kind{
		Name: name, Spoke: spoke, Hub: hub,
		ToHub: func(object []byte) (any, error) {
			in, out := new(S), new(H)
			if err := json.UnmarshalCaseSensitivePreserveInts(object, in); err != nil {
				return nil, fmt.Errorf("cannot be read: %w", err)
			}
			return out, toHub(in, out)
		},
		From: func(object []byte) (any, error) {
			in, out := new(H), new(S)
			if err := json.UnmarshalCaseSensitivePreserveInts(object, in); err != nil {
				return nil, fmt.Errorf("cannot be read: %w", err)
			}
			return out, fromHub(out, in)
		},
	}
}

type request struct {
	Kind   string             `json:"kind"`
	From   string             `json:"from"`
	To     string             `json:"to"`
	Object stdjson.RawMessage `json:"object"`
}

type response struct {
	Object any    `json:"object,omitempty"`
	Error  string `json:"error,omitempty"`
	Panic  string `json:"panic,omitempty"`
}

// Serve answers the lines of stdin on stdout until stdin ends.
func Serve(kinds ...Kind) {
	conversions := map[string]Convert{}
	for _, kind := range kinds {
		conversions[key(kind.Name, kind.Spoke, kind.Hub)] = kind.ToHub
		conversions[key(kind.Name, kind.Hub, kind.Spoke)] = kind.From
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<28)
	out := bufio.NewWriter(os.Stdout)
	encoder := stdjson.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		answer := convert(conversions, lines.Bytes())
		if err := encoder.Encode(answer); err != nil {
			fail(encoder.Encode(response{Error: fmt.Sprintf("cannot be written: %v", err)}))
		}
		fail(out.Flush())
	}
	fail(lines.Err())
}

func convert(conversions map[string]Convert, line []byte) (answer response) {
	defer func() {
		if reason := recover(); reason != nil {
			answer = response{Panic: fmt.Sprint(reason)}
		}
	}()
	var asked request
	if err := stdjson.Unmarshal(line, &asked); err != nil {
		return response{Error: fmt.Sprintf("the request cannot be read: %v", err)}
	}
	conversion, known := conversions[key(asked.Kind, asked.From, asked.To)]
	if !known {
		return response{Error: fmt.Sprintf("there is no conversion of %s from %s to %s", asked.Kind, asked.From, asked.To)}
	}
	converted, err := conversion(asked.Object)
	if err != nil {
		return response{Error: err.Error()}
	}
	return response{Object: converted}
}

func key(kind, from, to string) string {
	return kind + " " + from + " " + to
}

func fail(err error) {
	if err != nil {
		panic(err)
	}
}
