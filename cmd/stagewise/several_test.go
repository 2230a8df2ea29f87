package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

const severalConfiguration = `name: several
examples: {train: [train.csv], test: [test.csv], labels: several, label: tags, batch_rows: 100}
stages: [{features: {kind: rff, size: 60}, link: LINK, repeat: 2}]
`

// What the report says of test rows is what the definitions say of the probabilities that predict writes, with every
// link. A label that only test rows have, rows without labels and a label without rows are no trouble.
func TestSeveralLabels(t *testing.T) {
	long(t)
	for _, link := range []string{"identity", "logistic", "calibrated"} {
		t.Run(link, func(t *testing.T) {
			inFolder(t, map[string]string{"several.yaml": strings.ReplaceAll(severalConfiguration, "LINK", link)})
			write600(t, "train.csv", []byte(severalRows(1500, 1, "")))
			write600(t, "test.csv", []byte(severalRows(400, 2, "rare")))
			set := "--set=examples.classes=[right, up, rare, never]"
			code, stdout, stderr := stagewise("train", "-c", "several.yaml", "--quiet", "--report", "-", "--model", "several.model", set)
			report := new(schemas.Report)
			if code != exitDone || json.Unmarshal([]byte(stdout), report) != nil {
				t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
			}
			if report.Splits["holdout"].Rows < 200 || report.Thresholds == nil || report.Thresholds.Hamming == 0 {
				t.Fatalf("%+v", report)
			}
			code, stdout, stderr = stagewise("predict", "--model", "several.model", "-i", "test.csv")
			if code != exitDone || !strings.HasPrefix(stdout, "labels,right,up,rare,never\n") {
				t.Fatalf("exit code %d: %.200s%s", code, stdout, stderr)
			}
			content := valueOf(os.ReadFile("test.csv"))(t)
			test, n, k := report.Splits["test"], 0.0, 4.0
			var wrong, right, given, whole, first float64
			truth, answers := strings.Split(strings.TrimSpace(string(content)), "\n")[1:], strings.Split(strings.TrimSpace(stdout), "\n")[1:]
			for i, row := range truth {
				tags, _, _ := strings.Cut(row, ",")
				fields := strings.Split(answers[i], ",")
				exact, best := true, 0
				for c, label := range report.Labels {
					has := slices.Contains(strings.Split(tags, "|"), label)
					var p float64
					if _, err := fmt.Sscan(fields[1+c], &p); err != nil || p < 0 || p > 1 {
						t.Fatalf("probability %s", fields[1+c])
					}
					var q float64
					if _, err := fmt.Sscan(fields[1+best], &q); err == nil && p > q {
						best = c
					}
					if p >= report.Thresholds.Hamming != has {
						wrong++
					}
					exact = exact && p >= report.Thresholds.SubsetAccuracy == has
					said := p >= report.Thresholds.MicroF1
					if said != slices.Contains(strings.Split(fields[0], ";"), label) {
						t.Errorf("row %d: %s, %v at %v", i, answers[i], label, report.Thresholds.MicroF1)
					}
					for _, is := range []bool{has, said} {
						if is {
							given++
						}
					}
					if has && said {
						right++
					}
				}
				if n++; exact {
					whole++
				}
				if slices.Contains(strings.Split(tags, "|"), report.Labels[best]) {
					first++
				}
			}
			for name, pair := range map[string][2]float64{
				"hamming": {*test.Hamming, wrong / (n * k)}, "micro_f1": {*test.MicroF1, 2 * right / given},
				"subset_accuracy": {*test.SubsetAccuracy, whole / n}, "precision_at 1": {test.PrecisionAt["1"], first / n},
			} {
				if math.Abs(pair[0]-pair[1]) > 2e-3 { // a probability may be at the threshold
					t.Errorf("%s: the report says %.4f, the predictions have %.4f", name, pair[0], pair[1])
				}
			}
			if *test.Hamming > 0.08 || *test.MicroF1 < 0.85 || test.Confusion != nil {
				t.Errorf("%+v", test)
			}
		})
	}
}
