//go:build python

package python

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// The tests of the package in Python pass, and mypy finds no fault in its types.
func TestPythonPackage(t *testing.T) {
	p := newPython(t)
	p.run("-m", "unittest", "discover", "--top-level-directory", ".", "--start-directory", "tests")
	p.run("-m", "mypy", "--cache-dir", t.TempDir(), "src")
}

// largest is by how much a probability in Python may differ from that in Go.
const largest = 1e-5

// The package predicts what `stagewise predict` predicts, with every kind of features, every link, with and without previous predictions,
// with every preparation, and with the versions of a chain.
func TestPythonPredictsAsGo(t *testing.T) {
	p := newPython(t)
	p.writeRows("rows.csv", 400)
	links := link.Names()
	// Each kind comes with each link as the last, and with and without scores; all links come before all others, with and without scores.
	for i, features := range kindsOfFeatures(t) {
		for j, last := range links {
			first, scores := links[(i/2+j)%len(links)], (i+j)%2 == 1 && features["kind"] != stages.Trees
			size, sized := features["size"]
			if !sized {
				size = features["filters"]
			}
			name := fmt.Sprintf("%v-%v-%s-%s-%v", features["kind"], size, first, last, scores)
			o := options{"prepare": options{"scale": "standard"}, "stages": []options{
				{"features": features, "link": first, "passes": 3, "ridge": 1e-3},
				{"features": features, "link": last, "scores": scores, "passes": 3, "ridge": 1e-3},
			}}
			if kind := features["kind"]; kind == stages.Patches || kind == stages.PatchPolynomial { // six columns are images of 2 × 3 pixels
				o["examples"] = options{"train": []string{"rows.csv"}, "label": "kind", "missing": "mean", "batch_rows": 16, "partitions": 2,
					"columns": options{"use": strings.Split("abcdef", "")}, "image": []int{2, 3, 1}}
			}
			p.train(name, o)
		}
	}
	for _, scale := range []string{prepare.ScaleNone, prepare.ScaleStandard, prepare.ScaleUnit} {
		for _, components := range []int{0, 4} {
			p.train(fmt.Sprintf("prepare-%s-%d", scale, components), options{
				"prepare": options{"scale": scale, "pca": components}, "intercept": components > 0,
				"stages": []options{{"features": options{"size": 60}, "passes": 3, "ridge": 1e-3, "repeat": 3}},
			})
		}
	}
	p.train("ranks", options{"prepare": options{"scale": prepare.ScaleRanks}, "stages": []options{
		{"features": options{"size": 60}, "passes": 3, "ridge": 1e-3}, {"features": options{"kind": "columns"}, "scores": true}}})
	several := options{"train": []string{"rows.csv"}, "labels": "several", "label": "kind", "categorical": []string{"colour"},
		"header": true, "missing": "mean"}
	for _, first := range []string{link.Identity, link.Logistic, link.Calibrated} {
		for _, last := range []string{link.Identity, link.Logistic, link.Calibrated} {
			p.train(fmt.Sprint("several-", first, "-", last), options{"examples": several, "prepare": options{"scale": "standard"},
				"stages": []options{
					{"features": options{"size": 40}, "link": first, "passes": 3, "ridge": 1e-2}, {"features": options{"size": 60}, "link": last, "scores": true, "passes": 3, "ridge": 1e-2},
				}})
		}
	}
	numbers := options{"train": []string{"rows.csv"}, "targets": []string{"h", "i"}, "categorical": []string{"kind", "colour"},
		"header": true, "missing": "mean"}
	for _, scores := range []bool{false, true} {
		p.train(fmt.Sprint("numbers-", scores), options{"examples": numbers, "prepare": options{"scale": "standard"}, "stages": []options{
			{"features": options{"kind": "columns"}, "link": link.Identity}, {"features": options{"size": 60}, "link": link.Identity, "scores": scores, "ridge": 1e-2},
		}})
	}
	p.writeOffset("epoch.csv", "rows.csv")
	p.train("numbers-offset", options{"examples": options{"train": []string{"epoch.csv"}, "targets": []string{"h", "i"},
		"categorical": []string{"kind", "colour"}, "header": true, "missing": "mean"},
		"prepare": options{"scale": "standard"}, "stages": []options{{"features": options{"kind": "columns"}, "link": link.Identity}}})
	p.train("columns-drawn", options{"average": 2, "stages": []options{{"features": options{"kind": "columns", "size": 4}, "repeat": 3}}})
	for i, first := range links { // members of drawn features, with every link as the last, and of what is no probability
		for _, last := range links {
			p.train(fmt.Sprintf("average-%s-%s", first, last), options{"average": 2 + i%2, "prepare": options{"scale": "standard"},
				"stages": []options{
					{"features": options{"size": 40}, "link": first, "passes": 3, "ridge": 1e-3}, {"features": options{"kind": "columns"}, "link": last, "scores": true, "passes": 3, "ridge": 1e-3},
				}})
		}
	}
	p.train("average-several", options{"average": 3, "examples": several, "prepare": options{"scale": "standard"},
		"stages": []options{{"features": options{"size": 40}, "link": link.Logistic, "passes": 3}}})
	p.train("average-numbers", options{"average": 3, "examples": numbers, "prepare": options{"scale": "standard"},
		"stages": []options{{"features": options{"size": 60}, "ridge": 1e-2}}})
	grown := options{"kind": stages.Trees, "size": 60, "leaves": 12, "sample": 150}
	for i, l := range links { // trees between stages of other kinds
		p.train(fmt.Sprintf("mixed-%s", l), options{"average": 1 + i%3, "prepare": options{"scale": prepare.ScaleUnit, "pca": 4}, "intercept": i%2 == 0,
			"stages": []options{
				{"features": grown, "link": l}, {"features": options{"size": 40}, "link": links[(i+1)%len(links)], "scores": true, "passes": 3, "ridge": 1e-3},
				{"features": grown, "link": links[(i+2)%len(links)], "repeat": 2},
			}})
	}
	for i, l := range []string{link.Softmax, link.Logistic} { // scores that are divided by a temperature
		p.train("tempered-"+l, options{"average": 1 + i, "stages": []options{{"features": grown, "link": l, "repeat": 2, "temperature": 1.7}}})
	}
	p.train("trees-several", options{"examples": several, "stages": []options{{"features": grown, "link": link.Logistic, "repeat": 2}}})
	p.train("trees-numbers", options{"examples": numbers, "stages": []options{{"features": grown, "repeat": 2}}})
	p.train("warm-parent", options{"name": "warm", "stages": []options{{"features": options{"size": 60}, "passes": 2}}})
	p.train("warm-child", options{"name": "warm", "warm": "latest", "stages": []options{{"features": options{"size": 60}, "passes": 2}}})
	chain := options{
		"prepare": options{"scale": "standard"}, "stages": []options{{"features": options{"size": 60}, "passes": 3, "repeat": 2}},
		"retrain": options{"rows": 50, "refresh": 2}, "segment": 1,
	}
	p.configure("chain", chain)
	p.stagewise("run", "-c", "chain.yaml", "--until", "end")
	p.stagewise("weights", "export", "-c", "chain.yaml", "-o", "chain.model")
	p.predict("chain")
	chain["name"], chain["stages"] = "grown-chain", []options{{"features": grown, "repeat": 2}}
	p.configure("grown-chain", chain)
	p.stagewise("run", "-c", "grown-chain.yaml", "--until", "end")
	p.stagewise("weights", "export", "-c", "grown-chain.yaml", "-o", "grown-chain.model")
	p.predict("grown-chain")

	if versions := p.compare("tests/compare.py", 400); versions["chain"] < 4 {
		t.Errorf("the chain has %d versions", versions["chain"])
	}
}

// compare compares what the package predicts for each case with what `stagewise predict` wrote, of so many rows. It returns the versions.
func (p *python) compare(script string, rows int) (versions map[string]int) {
	p.Helper()
	var compared []struct {
		Case       string
		Version    int
		Difference float64
		SameLabels bool `json:"same_labels"`
		Rows       int
	}
	if err := json.Unmarshal(p.run(script, p.folder), &compared); err != nil {
		p.Fatal(err)
	}
	if len(compared) != len(p.cases) {
		p.Errorf("%d models were compared, expected %d", len(compared), len(p.cases))
	}
	versions, worst := map[string]int{}, 0.0
	for _, c := range compared {
		versions[c.Case], worst = c.Version, max(worst, c.Difference)
		if !(c.Difference <= largest) || !c.SameLabels || c.Rows != rows {
			p.Errorf("%s: a probability of %d rows differs by %.2g, expected at most %g; the labels are the same: %v", c.Case, c.Rows,
				c.Difference, largest, c.SameLabels)
		}
	}
	p.Logf("%d models, probabilities differ by %.2g at most", len(compared), worst)
	return versions
}

// kindsOfFeatures returns options of every kind of features that there is.
func kindsOfFeatures(t *testing.T) (kinds []options) {
	unknown := stages.Defaults()
	unknown.Kind = "unknown"
	problems := stages.Check(unknown)
	if len(problems) != 1 {
		t.Fatalf("an unknown kind of features: %v", problems)
	}
	for _, kind := range strings.Split(strings.ReplaceAll(problems[0].Want, " or ", ", "), ", ") {
		if stages.OnlySparse(stages.DefaultsOf(kind)) {
			continue // TestPythonPredictsSparseRows has these
		}
		size := 48
		if kind == stages.Columns {
			size = 5
			kinds = append(kinds, options{"kind": kind, "size": 2 * size, "replacement": true}, options{"kind": kind, "size": 0})
		}
		if kind == stages.Patches {
			kinds = append(kinds, options{"kind": kind, "patch": 2, "filters": 6, "grid": 1, "mirror": true})
			continue
		}
		if kind == stages.PatchPolynomial {
			// of degree 3, products of the rounding errors of responses would be larger than the bound
			kinds = append(kinds, options{"kind": kind, "size": size, "degree": 2, "patch": 2, "filters": 6, "grid": 1})
			continue
		}
		if kind == stages.Trees {
			kinds = append(kinds, options{"kind": kind, "size": size, "leaves": 8})
			continue
		}
		kinds = append(kinds, options{"kind": kind, "size": size, "degree": 3, "bandwidth_scale": 2})
	}
	if len(kinds) < 7 {
		t.Fatalf("%d kinds of features: %v", len(kinds), kinds)
	}
	return kinds
}

// configure writes the configuration of a case.
func (p *python) configure(name string, o options) {
	p.Helper()
	whole := options{
		"name": name, "seed": uint64(1<<63 + 11),
		"examples": options{"train": []string{"rows.csv"}, "label": "kind", "missing": "mean", "categorical": []string{"colour"},
			"batch_rows": 16, "partitions": 2},
	}
	for key, value := range o {
		whole[key] = value
	}
	whole["data_dir"] = filepath.Join(p.folder, "log", fmt.Sprint(whole["name"])) // a command reads what its folder has of all pipelines
	content, err := json.Marshal(whole)
	if err != nil {
		p.Fatal(err)
	}
	p.write(name+".yaml", string(content))
}

// train makes the model of a case, and what it predicts.
func (p *python) train(name string, o options) {
	p.Helper()
	p.configure(name, o)
	p.stagewise("train", "-c", name+".yaml", "--model", name+".model")
	p.predict(name)
}

func (p *python) predict(name string) {
	p.Helper()
	p.stagewise("predict", "--model", name+".model", "-i", "rows.csv", "-o", name+".csv")
	p.cases = append(p.cases, name)
}
