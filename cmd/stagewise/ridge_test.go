package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// The ridge is chosen if no configuration says it. It is on the report and in the list of versions, and its test error is near that
// of the best of a grid of ridges.
func TestRidgeIsChosen(t *testing.T) {
	inFolder(t, digits(t, `name: digits
examples: {train: [digits-train.csv.gz], test: [digits-test.csv.gz], header: false}
stages: [{features: {size: 256}}]
`))
	train := func(ridge string) (*schemas.Report, bool) {
		code, stdout, stderr := stagewise("train", "-c", "digits.yaml", "--quiet", "--report", "-", "--set", "stages.0.ridge="+ridge)
		if code != exitDone {
			if ridge == "auto" || !strings.Contains(stderr, "set a larger ridge") {
				t.Fatalf("ridge %s: exit code %d: %s", ridge, code, stderr)
			}
			return nil, false
		}
		report := new(schemas.Report)
		if err := json.Unmarshal([]byte(stdout), report); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		t.Logf("ridge %s: %v, %d passes, test error %.2f %%", ridge, report.Stages[0].Ridge, report.Stages[0].Passes, *report.TestError)
		return report, true
	}
	auto, _ := train("auto")
	unset, _ := train("")
	chosen := auto.Stages[0].Ridge
	if !(chosen > 0) || unset.WeightsDigest != auto.WeightsDigest || unset.Stages[0].Ridge != chosen {
		t.Errorf("ridge %v with auto, %v without the key", chosen, unset.Stages[0].Ridge)
	}
	if number, ok := train(chosen.String()); !ok || number.WeightsDigest != auto.WeightsDigest || number.Stages[0].Ridge != chosen {
		t.Errorf("the ridge %v has other weights than auto, which has chosen it", chosen)
	}
	best := math.Inf(1)
	for _, ridge := range []string{"1e-5", "1e-4", "1e-3", "1e-2", "1e-1"} {
		if report, ok := train(ridge); ok {
			best = min(best, *report.TestError)
		}
	}
	row := 100 / float64(auto.Splits["test"].Rows)
	if bound := 1.1*best + 0.2 + row; *auto.TestError > bound {
		t.Errorf("test error %.2f %% with the ridge %v, expected at most %.2f", *auto.TestError, chosen, bound)
	}
	if code, stdout, stderr := stagewise("weights", "list", "-c", "digits.yaml"); code != exitDone || strings.Count(stdout, " "+
		chosen.String()+" ") < 3 {
		t.Errorf("exit code %d: %s%s, expected the ridge %v", code, stdout, stderr, chosen)
	}
	if code, stdout, stderr := stagewise("check", "-c", "digits.yaml"); code != exitDone || !strings.Contains(stdout, " auto ") {
		t.Errorf("exit code %d: %s%s, expected the ridge auto", code, stdout, stderr)
	}
}
