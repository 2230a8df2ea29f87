package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// rareRows writes CSV of two classes that overlap: one row of twenty is rare.
func rareRows(t *testing.T, name string, seed uint64, n int) {
	t.Helper()
	r, text := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
	for range n {
		label, center := "common", 0.0
		if r.IntN(20) == 0 {
			label, center = "rare", 1.5
		}
		fmt.Fprintf(&text, "%s,%.4f,%.4f\n", label, center+r.NormFloat64(), center+r.NormFloat64())
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

const rareConfiguration = `name: rare
examples: {train: [train.csv], test: [test.csv], header: false, batch_rows: 100}
stages: [{features: {kind: columns}, link: softmax, ridge: 1e-3}]
`

// recall returns which part of the rare test rows is found.
func recall(r *schemas.Report) float64 {
	row := r.Splits["test"].Confusion[1]
	return float64(row[1]) / float64(row[0]+row[1])
}

// Balanced classes are the weights n/(k·c), to the bit, and find the rare class. A label that is no class is refused.
func TestClassWeights(t *testing.T) {
	inFolder(t, map[string]string{"rare.yaml": rareConfiguration})
	rareRows(t, "train.csv", 1, 2000)
	rareRows(t, "test.csv", 2, 1000)
	train := func(weight string) *schemas.Report {
		t.Helper()
		code, stdout, stderr := stagewise("train", "-c", "rare.yaml", "--quiet", "--report", "-", "--set", "examples.class_weight="+weight)
		report := new(schemas.Report)
		if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
			t.Fatalf("class_weight %s: exit code %d: %s%s", weight, code, stdout, stderr)
		}
		return report
	}
	none, balanced, zero := train("none"), train("balanced"), train("{common: 0}")
	if a, b := recall(none), recall(balanced); !(a < 0.5 && b > 0.7) {
		t.Errorf("%.2f of the rare rows are found without weights, %.2f with balanced ones", a, b)
	}
	if recall(zero) != 1 {
		t.Errorf("%.2f of the rare rows are found if the others weigh nothing", recall(zero))
	}
	content, err := os.ReadFile("train.csv")
	if err != nil {
		t.Fatal(err)
	}
	rare := strings.Count(string(content), "rare")
	byNumber := train(fmt.Sprintf("{rare: %v, common: %v}", 2000/(2*float64(rare)), 2000/(2*float64(2000-rare))))
	if byNumber.WeightsDigest != balanced.WeightsDigest {
		t.Error("balanced has other weights than the same factors by number")
	}
	if unset := train(""); unset.WeightsDigest != none.WeightsDigest {
		t.Error("none has other weights than a configuration without the key")
	}
	code, _, stderr := stagewise("train", "-c", "rare.yaml", "--quiet", "--set", "examples.class_weight={rarest: 2}")
	if code != exitFailed || !strings.Contains(stderr, `no row has the label "rarest"`) {
		t.Errorf("exit code %d for a label that no row has: %s", code, stderr)
	}
	for _, wrong := range []string{"equal", "{rare: -1}", "{rare: many}", "[1, 2]"} {
		code, _, stderr := stagewise("check", "-c", "rare.yaml", "--set", "examples.class_weight="+wrong)
		if code != exitWrong || !strings.Contains(stderr, "none, balanced, or a number ≥ 0 for each of some labels") {
			t.Errorf("%s: exit code %d: %s", wrong, code, stderr)
		}
	}
}

// The updates of a chain keep the weights of the version before them: with balanced classes they go on finding the rare one.
func TestUpdatesKeepClassWeights(t *testing.T) {
	inFolder(t, map[string]string{"rare.yaml": rareConfiguration})
	rareRows(t, "train.csv", 1, 2000)
	rareRows(t, "test.csv", 2, 1000)
	found := map[string]float64{}
	for _, weight := range []string{"none", "balanced"} {
		sets := []string{"-c", "rare.yaml", "--set=data_dir=" + weight, "--set=examples.class_weight=" + weight, "--set=retrain.rows=500",
			"--set=retrain.full.growth=0"}
		code, stdout, stderr := stagewise(append([]string{"run", "--quiet", "--until", "end", "--report", "-"}, sets...)...)
		if code != exitDone || strings.Count(stdout, `"kind":"update"`)+strings.Count(stdout, `"kind": "update"`) < 3 {
			t.Fatalf("class_weight %s: exit code %d: %s%s", weight, code, stdout, stderr)
		}
		if code, _, stderr := stagewise(append([]string{"weights", "export", "-o", "rare.model"}, sets...)...); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		code, stdout, stderr = stagewise("predict", "--model", "rare.model", "-i", "test.csv")
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		truth, err := os.ReadFile("test.csv")
		if err != nil {
			t.Fatal(err)
		}
		right, all := 0.0, 0.0
		predicted := strings.Split(stdout, "\n")[1:]
		for i, row := range strings.Split(string(truth), "\n") {
			if strings.HasPrefix(row, "rare,") {
				if all++; strings.HasPrefix(predicted[i], "rare,") {
					right++
				}
			}
		}
		found[weight] = right / all
	}
	if !(found["none"] < 0.5 && found["balanced"] > 0.7) {
		t.Errorf("the chain finds these parts of the rare rows: %v", found)
	}
}
