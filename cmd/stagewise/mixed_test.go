package main

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// clicks returns rows of events as CSV and JSON Lines. Whether there is a click depends on a number, a word of the text, and on site and ad
// together.
func clicks(n int, seed uint64) (table, lines string) {
	r := rand.New(rand.NewPCG(seed, 3))
	var rows, objects strings.Builder
	rows.WriteString("click,site,ad,age,price,message\n")
	words := strings.Fields("alpha beta gamma delta epsilon zeta")
	for range n {
		site, ad, age, price := r.IntN(12), r.IntN(9), 2000+5*r.NormFloat64(), r.Float64()
		text := words[r.IntN(6)] + " " + words[r.IntN(6)]
		score := 2*float64((site*5+ad*3)%7%2) - 1 + (age-2000)/5
		if strings.Contains(text, "alpha") {
			score++
		}
		click := "no"
		if score+0.2*r.NormFloat64() > 0 {
			click = "yes"
		}
		fmt.Fprintf(&rows, "%s,s%d,%d,%g,%g,%s\n", click, site, ad, age, price, text)
		fmt.Fprintf(&objects, `{"message":%q,"price":%g,"age":%g,"ad":%d,"site":"s%d","click":%q}`+"\n", text, price, age, ad, site, click)
	}
	return rows.String(), objects.String()
}

// Numbers, words, their cross and a text in one row are learnt, each of them, and a model predicts the same from each format.
func TestEvents(t *testing.T) {
	train, _ := clicks(3000, 1)
	test, lines := clicks(500, 2)
	inFolder(t, map[string]string{"train.csv": train, "test.csv": test, "test.jsonl": lines, "e.yaml": `name: events
data_dir: d
examples: {train: train.csv, test: test.csv, label: click, text: message, categorical: [site, ad]}
prepare: {hash: {columns: 2^12, cross: [[site, ad]]}}
stages: [{features: {kind: columns}, link: softmax, passes: 30}]
`})
	testError := func(args ...string) float64 {
		t.Helper()
		if err := os.RemoveAll("d"); err != nil {
			t.Fatal(err)
		}
		return *reportIn(t, "e.yaml", append(args, "--model", "model")...).TestError
	}
	all := testError()
	predicted := predictions(t, "--model", "model", "-i", "test.csv")
	if predictions(t, "--model", "model", "-i", "test.jsonl") != predicted {
		t.Error("predictions of JSON Lines differ from those of CSV")
	}
	rows, err := csv.NewReader(strings.NewReader(predicted)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for i, line := range strings.Split(strings.TrimSpace(test), "\n")[1:] {
		if label, _, _ := strings.Cut(line, ","); rows[i+1][0] != label {
			wrong++
		}
	}
	if got := float64(wrong) / 5; got != all {
		t.Errorf("%v %% of the predictions are wrong, the report has %v", got, all)
	}
	for _, without := range []string{"prepare.hash.cross=[]", "examples.columns.drop=[age]", "examples.text=null,message"} {
		args := []string{"--set", without}
		if key, column, both := strings.Cut(without, ",message"); both {
			args = []string{"--set", key + column, "--set", "examples.columns.drop=[message]"}
		}
		if less := testError(args...); !(less > all+1.5) {
			t.Errorf("%s: the test error is %v, with all columns %v", without, less, all)
		}
	}
	if code, _, stderr := stagewise("weights", "export", "-c", "e.yaml", "--format", "onnx", "-o", "m.onnx"); code != exitDone {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A stage that counts what occurs is refused beside a column of numbers before anything is ingested, and by check; without that column it
// trains.
func TestCountsOfNumbersAreRefused(t *testing.T) {
	train, _ := clicks(300, 1)
	inFolder(t, map[string]string{"train.csv": train, "e.yaml": `name: events
data_dir: d
examples: {train: train.csv, label: click, categorical: [site, ad]}
prepare: {hash: {columns: 2^12}}
stages: [{features: {kind: columns}, link: softmax}, {features: {kind: class_counts}}]
`})
	const want = `stages.1.features.kind: class_counts: column "age" has numbers`
	for _, command := range []string{"check", "train", "run"} {
		args := []string{command, "-c", "e.yaml"}
		if command == "run" {
			args = append(args, "--until", "end")
		}
		if code, _, stderr := stagewise(args...); code == exitDone || !strings.Contains(stderr, want) || strings.Contains(stderr, "300 train") {
			t.Errorf("%s: exit code %d: %s, expected %q", command, code, stderr, want)
		}
	}
	if code, _, stderr := stagewise("train", "-c", "e.yaml", "--set", "examples.columns.drop=[age, price, message]"); code != exitDone {
		t.Errorf("without numbers: exit code %d: %s", code, stderr)
	}
}
