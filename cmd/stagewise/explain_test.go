package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/explain"
)

// trainedGarden trains a model of [garden] and returns the configuration's file.
func trainedGarden(t *testing.T) {
	t.Helper()
	rows := strings.SplitAfter(garden(500), "\n")
	inFolder(t, map[string]string{"train.csv": strings.Join(rows[:401], ""), "test.csv": rows[0] + strings.Join(rows[401:], "")})
	for _, args := range [][]string{
		{"init", "train.csv", "--label", "kind"},
		{"train", "-c", "stagewise.yaml", "--set", "stages=[{features: {kind: trees}, repeat: 3}]", "--quiet", "--model", "garden.model"},
	} {
		typed(t, exitDone, args...)
	}
}

// explained returns what explain says of a file.
func explained(t *testing.T, args ...string) (r explain.Report) {
	t.Helper()
	code, stdout, stderr := stagewise(append([]string{"explain", "--json", "-"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &r); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	return r
}

// Columns that say the label are important, and others are not. The errors are those of the predictions, as a whole and by slices.
func TestExplain(t *testing.T) {
	long(t)
	trainedGarden(t)
	r := explained(t, "--model", "garden.model", "-i", "test.csv", "--slice", "colour", "--slice", "length")
	if r.Rows != 100 || r.Task != "classification" || len(r.Importance) != 6 || r.Shuffles != 5 {
		t.Fatalf("%+v", r)
	}
	rise := map[string]float64{}
	for i, c := range r.Importance {
		if rise[c.Name] = c.Rise.Loss; i > 0 && c.Rise.Loss > r.Importance[i-1].Rise.Loss {
			t.Errorf("%s is after a less important column", c.Name)
		}
	}
	for _, c := range []string{"width", "no"} {
		if rise[c] > 0.25*min(rise["colour"], rise["length"]) {
			t.Errorf("%s raises the loss by %v, of colour and length %v and %v", c, rise[c], rise["colour"], rise["length"])
		}
	}
	_, predicted, _ := stagewise("predict", "--model", "garden.model", "-i", "test.csv")
	predictions := valueOf(csv.NewReader(strings.NewReader(predicted)).ReadAll())(t)
	content := valueOf(os.ReadFile("test.csv"))(t)
	truth := valueOf(csv.NewReader(bytes.NewReader(content)).ReadAll())(t)
	wrong, loss, losses := 0, 0.0, map[int64]float64{}
	for i, row := range predictions[1:] {
		label := truth[i+1][8]
		if row[0] != label {
			wrong++
		}
		for c, name := range predictions[0] {
			if name == label {
				var p float64
				fmt.Sscan(row[c], &p)
				losses[int64(i)] = -math.Log(p)
				loss -= math.Log(p) / 100
			}
		}
	}
	if got := r.Measures; math.Abs(got.Error-100*float64(wrong)/100) > 1e-9 || math.Abs(got.Loss-loss) > 1e-4 {
		t.Errorf("%+v, expected %d wrong rows and a loss of %v", got, wrong, loss)
	}
	for _, s := range r.Slices {
		rows, sum := 0, 0.0
		for _, slice := range s.Slices {
			rows, sum = rows+slice.Rows, sum+float64(slice.Rows)*slice.Error/100
		}
		if rows != r.Rows || math.Abs(sum-r.Measures.Error) > 1e-9 {
			t.Errorf("slices of %s have %d rows, and an error of %v", s.Name, rows, sum)
		}
	}
	if len(r.Wrong) != 10 {
		t.Errorf("%d rows are most wrong", len(r.Wrong))
	}
	for i, w := range r.Wrong {
		if w.Label != truth[w.Row+1][8] || math.Abs(w.Loss-losses[w.Row]) > 1e-3 || i > 0 && w.Loss > r.Wrong[i-1].Loss {
			t.Errorf("%+v, expected the label %s and a loss of %v", w, truth[w.Row+1][8], losses[w.Row])
		}
	}
	for _, c := range r.Dependence {
		for _, p := range c.Points {
			sum := 0.0
			for _, v := range p.Mean {
				sum += v
			}
			if math.Abs(sum-1) > 1e-3 {
				t.Errorf("probabilities at %s of %s sum to %v", p.Value, c.Name, sum)
			}
		}
	}
}
