//go:build python

package python

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// The measures of a report are those of scikit-learn, by the names that docs/experiments.md gives them. Whole labels
// pass through scikit-learn as numbers, others as texts.
func TestPythonMeasuresAsScikitLearn(t *testing.T) {
	p := newPython(t)
	softmax := []options{{"features": options{"kind": "rff", "size": 40}, "link": "softmax", "passes": 3}}
	for name, labels := range map[string][]string{"whole": {"0", "1"}, "text": {"no", "yes"}, "spelt": {"007", "7", "8"},
		"three": {"-1", "2", "10"}} {
		p.measured(name, options{"label": "label"}, softmax, func(r *rand.Rand, class int) (heads, values []string) {
			if class = class % len(labels); r.IntN(5) == 0 {
				return []string{"label"}, []string{labels[r.IntN(len(labels))]}
			}
			return []string{"label"}, []string{labels[class]}
		})
	}
	rare := func(r *rand.Rand, class int) (heads, values []string) {
		label := "no"
		if class == 5 || r.IntN(20) == 0 {
			label = "yes"
		}
		return []string{"label"}, []string{label}
	}
	for name, threshold := range map[string]any{"costs": options{"cost": options{"fp": 1, "fn": 20}}, "best": "best_f1", "fixed": 0.3} {
		p.measured(name, options{"label": "label", "threshold": threshold}, softmax, rare)
	}
	p.measured("numbers", options{"targets": []string{"label"}}, []options{{"features": options{"kind": "columns"},
		"link": "identity"}}, func(r *rand.Rand, class int) (heads, values []string) {
		return []string{"label"}, []string{fmt.Sprint(100 + float64(class) + r.NormFloat64())}
	})
	p.measured("several", options{"labels": "several", "label_columns": []string{"a", "b", "c"}},
		[]options{{"features": options{"kind": "rff", "size": 40}, "link": "logistic", "passes": 3}},
		func(r *rand.Rand, class int) (heads, values []string) {
			for label := range 3 {
				has := label <= class%3
				if r.IntN(6) == 0 {
					has = !has
				}
				values = append(values, map[bool]string{true: "1", false: "0"}[has])
			}
			return []string{"a", "b", "c"}, values
		})
	var cases []struct {
		Case    string         `json:"case"`
		Report  map[string]any `json:"report"`
		Sklearn map[string]any `json:"scikit-learn"`
	}
	assert.NoError(t, json.Unmarshal(p.run("tests/measures.py", p.folder), &cases))
	assert.True(t, len(cases) == 9, "%d cases", len(cases))
	// Of ranks a report has histograms: so near they are here, with two and with three classes.
	ranks := map[string]float64{"auc": 1e-3, "average_precision": 3e-3}
	for _, c := range cases {
		for name, want := range c.Sklearn {
			got := c.Report[name]
			assert.True(t, alike(got, want, max(1e-5, ranks[name])), "%s: %s is %v, scikit-learn has %v", c.Case, name, got, want)
		}
	}
}

// alike reports whether JSON has the same numbers, within a tolerance, and otherwise the same text.
func alike(got, want any, tolerance float64) bool {
	each := func(got, want any) bool { return alike(got, want, tolerance) }
	switch want := want.(type) {
	case float64:
		value, ok := got.(float64)
		return ok && math.Abs(value-want) <= tolerance*(1+math.Abs(want))
	case []any:
		values, _ := got.([]any)
		return slices.EqualFunc(values, want, each)
	case map[string]any:
		values, _ := got.(map[string]any)
		return maps.EqualFunc(values, want, each)
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

// measured makes a model of rows that it draws, its report and its test rows. labels returns the names of the columns
// that say what a row is, and their values.
func (p *python) measured(name string, examples options, stages []options, labels func(r *rand.Rand, class int) (heads, values []string)) {
	p.Helper()
	r := rand.New(rand.NewPCG(1, 7))
	for i, file := range []string{name + ".train.csv", name + ".test.csv"} {
		rows := []int{600, 400}[i]
		var text strings.Builder
		for i := range rows {
			class := i % 6
			heads, values := labels(r, class)
			if i == 0 {
				fmt.Fprintln(&text, strings.Join(heads, ",")+",x,y,z")
			}
			fmt.Fprintf(&text, "%s,%.4f,%.4f,%.4f\n", strings.Join(values, ","), float64(class%3)+r.NormFloat64(), float64(class%2)+
				r.NormFloat64(), r.NormFloat64())
		}
		p.write(file, text.String())
	}
	examples["train"], examples["test"], examples["header"] = []string{name + ".train.csv"}, []string{name + ".test.csv"}, true
	configuration := options{"name": name, "data_dir": filepath.Join(p.folder, "log", name), "examples": examples,
		"prepare": options{"scale": "standard"}, "stages": stages}
	if threshold, has := examples["threshold"]; has {
		delete(examples, "threshold")
		configuration["threshold"] = threshold
	}
	p.write(name+".yaml", string(assert.Must(json.Marshal(configuration))(p)))
	p.stagewise("train", "-c", name+".yaml", "--quiet", "--model", name+".model", "--report", name+".json")
}
