// Command gotexts prints what Go and Kubernetes make of texts of durations and quantities, as one JSON document.
// Its output is texts.json: go run . > texts.json
package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A row is the text, then null if it is refused, or: its nanoseconds or billionths, how it is printed, and for a
// quantity its format.
type row []any

// The form of quantities that controller-gen writes into CRDs. ParseQuantity accepts more, such as a suffix alone.
var form = regexp.MustCompile(`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$`)

func judgeDuration(text string) row {
	value, err := time.ParseDuration(text)
	if err != nil {
		return row{text, nil}
	}
	return row{text, fmt.Sprint(int64(value)), value.String()}
}

func judgeQuantity(text string) row {
	value, err := resource.ParseQuantity(text)
	if err != nil {
		return row{text, nil}
	}
	value.Add(resource.Quantity{}) // forgets the text that it was parsed from
	dec := value.AsDec()
	billionths := new(big.Int).Set(dec.UnscaledBig())
	for scale := int64(dec.Scale()); scale != 9; {
		if scale < 9 {
			billionths.Mul(billionths, big.NewInt(10))
			scale++
		} else {
			billionths.Quo(billionths, big.NewInt(10))
			scale--
		}
	}
	return row{text, billionths.String(), value.String(), string(value.Format)}
}

func number(r *rand.Rand) string {
	digits := []string{"0", "1", "5", "9", "10", "12", "59", "60", "90", "100", "500", "512", "999", "1000", "1023",
		"1024", "1025", "1500", "2000", "1048576", "007", "00", "123456789", "999999999999", "9223372036854775807",
		"9223372036854775808", "2562047", "2562048"}
	text := digits[r.Intn(len(digits))]
	switch r.Intn(6) {
	case 0:
		text += "." + digits[r.Intn(len(digits))]
	case 1:
		text += "."
	case 2:
		text = "." + text
	}
	return text
}

func sign(r *rand.Rand) string {
	return []string{"", "", "", "", "-", "+"}[r.Intn(6)]
}

func main() {
	r := rand.New(rand.NewSource(20261123))
	durations := []row{}
	for _, text := range []string{"", "0", "-0", "+0", "s", ".s", "1", "1.s", ".5s", "1d", "1h30", "1h 30m", " 1s", "1S",
		"1us", "1µs", "1μs", "-9223372036854775808ns", "9223372036854775808ns", "9223372036854775807ns", "2562047h47m16.854775807s",
		"-2562047h47m16.854775808s", "0.1s", "0.0000000001s", "1.0000000009s", "0.3333333333333333333h", "0.830103483285477580700h",
		"1h1h", "--1s", "1.5.5s", "1e3s", "١s"} {
		durations = append(durations, judgeDuration(text))
	}
	units := []string{"ns", "us", "µs", "ms", "s", "m", "h", "h", "m", "s", "d", ""}
	for len(durations) < 900 {
		text := sign(r)
		for n := 1 + r.Intn(3); n > 0; n-- {
			text += number(r) + units[r.Intn(len(units))]
		}
		durations = append(durations, judgeDuration(text))
	}
	quantities := []row{}
	suffixes := strings.Split(",n,u,m,k,M,G,T,P,E,Ki,Mi,Gi,Ti,Pi,Ei,e3,E3,e-3,e+6,e0,e2,E-2,e18,e-9,e-12,ki,K,mi,e,i", ",")
	for _, text := range []string{"", "0", "-0", "0.0", "0Ki", "1.5Gi", "0.5Mi", "1.1Ki", "8Ei", "7Ei", "-8Ei", "16Ei", "0.0000000001",
		"1n", "0.1n", "1500m", "1e-10", "1e20", "1E", "1e", "1 Gi", "1Gib", "0x10", "1,5"} {
		quantities = append(quantities, judgeQuantity(text))
	}
	for len(quantities) < 900 {
		text := sign(r) + number(r) + suffixes[r.Intn(len(suffixes))]
		judged := judgeQuantity(text)
		if judged[1] == nil || form.MatchString(text) {
			quantities = append(quantities, judged)
		}
	}
	fmt.Println("{")
	print("durations", durations, ",")
	print("quantities", quantities, "")
	fmt.Println("}")
}

func print(name string, rows []row, end string) {
	fmt.Printf("%q: [\n", name)
	for i, each := range rows {
		line, err := json.Marshal(each)
		if err != nil {
			panic(err)
		}
		comma := ","
		if i == len(rows)-1 {
			comma = ""
		}
		fmt.Printf("%s%s\n", line, comma)
	}
	fmt.Printf("]%s\n", end)
}
