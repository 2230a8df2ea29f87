package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// counted is a LIBSVM file of texts as counts of words: each class has words that it uses more often, and one word in
// three is of no class. It also returns the same rows as a CSV, of all columns.
func counted(rows int, seed uint64) (sparse, dense string) {
	r := rand.New(rand.NewPCG(seed, 2))
	var lines, table strings.Builder
	for i := range rows {
		class, counts := i%3, map[int]int{}
		for range 12 {
			word := r.IntN(60)
			if r.IntN(3) > 0 {
				word = 20*class + r.IntN(20)
			}
			counts[word]++
		}
		fmt.Fprintf(&lines, "topic%d", class)
		fmt.Fprintf(&table, "topic%d", class)
		for word := range 60 {
			if n := counts[word]; n > 0 {
				fmt.Fprintf(&lines, " %d:%d", word, n)
			}
			fmt.Fprintf(&table, ",%d", counts[word])
		}
		lines.WriteByte('\n')
		table.WriteByte('\n')
	}
	return lines.String(), table.String()
}

const countedConfig = `
name: counted
examples: {train: [train.libsvm], test: [test.libsvm], batch_rows: 32, partitions: 3}
prepare: {min_rows: 2, values: log1p, idf: 1, scale: unit}
segment: 2
stages: [{features: {kind: columns}, link: identity, method: cg}]
`

// inCounted begins a folder with the counted files.
func inCounted(t *testing.T) {
	train, table := counted(600, 1)
	test, _ := counted(300, 2)
	inFolder(t, map[string]string{"train.libsvm": train, "train.csv": table, "test.libsvm": test, "counted.yaml": countedConfig})
}

// reportOf trains and returns the report.
func reportOf(t *testing.T, args ...string) (report schemas.Report) {
	t.Helper()
	return reportIn(t, "counted.yaml", args...)
}

// reportIn is reportOf of a configuration.
func reportIn(t *testing.T, config string, args ...string) (report schemas.Report) {
	t.Helper()
	code, stdout, stderr := stagewise(append([]string{"train", "-c", config, "--report", "-"}, args...)...)
	if code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// A model of a LIBSVM file predicts others, and what it predicts of the file that it was tested on has the error that the report says. The
// same rows as a table of all columns have the same probabilities.
func TestTrainSparse(t *testing.T) {
	for _, set := range [][]string{
		nil,
		{"--set", "stages.0.link=softmax", "--set", "stages.0.method=auto"},
		{"--set", "stages.0.link=softmax", "--set", "stages.0.method=lbfgs", "--set", "stages.0.ridge=0.1"},
		{"--set", "examples.class_weight=balanced"},
		{"--set", "stages.0.method=auto", "--set", "stages.0.repeat=2", "--set", "prepare.min_rows=0"},
		{"--set", "stages.0.features={kind: gradient, size: 7}", "--set", "stages.0.passes=20"},
		{"--set", "stages.0.features={kind: gradient}", "--set", "stages.0.method=auto", "--set", "stages.0.link=softmax"},
	} {
		inCounted(t)
		report := reportOf(t, append(set, "--model", "model")...)
		if report.TestError == nil || *report.TestError > 12 {
			t.Fatalf("%q: the test error is %v", set, *report.TestError)
		}
		labels, wrong := predicted(t, "-i", "test.libsvm"), 0
		for i, label := range labels {
			if label != "topic"+strconv.Itoa(i%3) {
				wrong++
			}
		}
		if got := 100 * float64(wrong) / float64(len(labels)); math.Abs(got-*report.TestError) > 1e-9 || len(labels) != 300 {
			t.Errorf("%q: %d rows, error %v, the report says %v", set, len(labels), got, *report.TestError)
		}
		_, ofSparse, _ := stagewise("predict", "--model", "model", "-i", "train.libsvm")
		if code, ofTable, stderr := stagewise("predict", "--model", "model", "-i", "train.csv", "--label", "0"); ofTable != ofSparse {
			t.Errorf("%q: other predictions for the rows as a table: exit code %d: %s", set, code, stderr)
		}
	}
}

// Sparse rows may have several labels each. Their metrics are those of the same rows as a table, and predict gives the labels.
func TestTrainSparseOfSeveralLabels(t *testing.T) {
	for _, link := range []string{"identity", "logistic"} {
		train, table := counted(900, 1)
		test, testTable := counted(300, 2)
		several := strings.NewReplacer("topic0", "a", "topic1", "a,b", "topic2", "c,b") // each class has labels that it shares
		inFolder(t, map[string]string{
			"train.libsvm": several.Replace(train), "test.libsvm": several.Replace(test),
			"train.csv": tabbed(table, several), "test.csv": tabbed(testTable, several), "counted.yaml": countedConfig,
		})
		set := []string{"--set", "examples.labels=several", "--set", "prepare.min_rows=0", "--set", "prepare.values=none", "--set",
			"prepare.idf=0", "--set", "prepare.scale=none", "--set", "stages.0.ridge=0.01", "--set", "stages.0.link=" + link}
		sparse := reportOf(t, append(set, "--set", "stages.0.method=auto", "--set", "stages.0.passes=60", "--model", "model")...)
		dense := reportOf(t, append(set, "--set", "name=dense", "--set", "stages.0.method=auto", "--set", "examples.train=train.csv",
			"--set", "examples.test=test.csv")...)
		got, want := sparse.Splits["test"], dense.Splits["test"]
		if *got.MicroF1 < 0.9 || math.Abs(*got.MicroF1-*want.MicroF1) > 0.02 || math.Abs(*got.Hamming-*want.Hamming) > 0.02 {
			t.Errorf("%s: micro-F1 %v and Hamming loss %v, as a table %v and %v", link, *got.MicroF1, *got.Hamming, *want.MicroF1, *want.Hamming)
		}
		code, stdout, stderr := stagewise("predict", "--model", "model", "-i", "test.libsvm")
		if lines := strings.Split(stdout, "\n"); code != exitDone || len(lines) != 302 || lines[0] != "labels,a,b,c" {
			t.Errorf("%s: exit code %d: %.100s%s", link, code, stdout, stderr)
		}
	}
}

// tabbed returns a CSV with other labels, and tabs between its columns, as the labels have commas.
func tabbed(table string, labels *strings.Replacer) string {
	return labels.Replace(strings.ReplaceAll(table, ",", "\t"))
}

// However much stays in memory, the weights are the same to the bit; a batch is read again or not.
func TestSparseDigest(t *testing.T) {
	for _, kind := range []string{"{kind: columns}", "{kind: gradient, size: 20}"} {
		digests := map[string]bool{}
		for _, set := range [][]string{nil, {"--set", "memory=1"}, {"--set", "memory=20000"}} {
			inCounted(t)
			set = append(set, "--set", "stages.0.features="+kind)
			first := reportOf(t, set...)
			digests[string(first.WeightsDigest)] = true
			digests[string(reportOf(t, set...).WeightsDigest)] = true // of the same rows again, which are on the topic
		}
		if len(digests) != 1 {
			t.Errorf("%s: digests %v, expected one", kind, digests)
		}
	}
}

// A stop rule ends a stage of sparse rows before its passes are made, and its weights are those of the pass with the
// smallest loss of the split.
func TestStopOfSparseRows(t *testing.T) {
	for _, kind := range []string{"{kind: columns}", "{kind: gradient, size: 20}"} {
		inCounted(t)
		stage := reportOf(t, "--set", "stages=[{features: "+kind+", link: identity, passes: 60, ridge: 1e-3, stop: {patience: 2}}]",
			"--set", "examples.holdout=0.2").Stages[0]
		least := math.Inf(1)
		for _, pass := range stage.ByPass {
			least = min(least, *pass.HoldoutLoss)
		}
		if stage.Passes < 4 || stage.Passes == 60 {
			t.Errorf("%s: %d passes", kind, stage.Passes)
		}
		if math.Abs(*stage.HoldoutLoss-least) > 1e-9 {
			t.Errorf("%s: the holdout loss is %v at the end of the stage, in a pass it was %v", kind, *stage.HoldoutLoss, least)
		}
	}
}

// A run that starts from a version goes on from its weights, and from the columns that it has.
func TestSparseWarmStart(t *testing.T) {
	inCounted(t)
	first := reportOf(t, "--set", "stages.0.passes=3")
	second := reportOf(t, "--set", "stages.0.passes=3", "--set", "warm=latest")
	if !(second.Stages[0].TrainLoss < first.Stages[0].TrainLoss) {
		t.Errorf("the loss is %v after three more passes, before it was %v", second.Stages[0].TrainLoss, first.Stages[0].TrainLoss)
	}
}

// What sparse rows can't do is said, with what to set.
func TestSparseRefusals(t *testing.T) {
	inCounted(t)
	for args, want := range map[string]string{
		"train --set stages.0.features.kind=rff --set stages.0.method=auto": "features.kind: rff: the examples are sparse, " +
			"and this needs dense rows: set it to columns or gradient or class_counts",
		"train --set stages.0.features.size=10": "features.size: 10: the examples are sparse, " +
			"and this needs dense rows: set it to 0, which is all columns",
		"train --set stages.0.link=calibrated --set stages.0.method=auto": "link: calibrated: the examples are sparse, and " +
			"this needs dense rows: set it to identity or softmax",
		"train --set stages.0.scores=true": "scores: true: the examples are sparse, and " +
			"this needs dense rows: set it to false",
		"train --set prepare.pca=2": "prepare.pca: 2: the examples are sparse, and " +
			"this needs dense rows: set it to 0",
		"train --set prepare.scale=standard": "prepare.scale: standard: the examples are " +
			"sparse, and this needs dense rows: set it to none or unit",
		"train --set prepare.min_rows=1000": "prepare.min_rows: no feature is in 1000 " +
			"training rows or more: set a smaller number",
		"train --set stages.0.link=softmax": "stages.0.method: cg: expected auto, paper, accelerated " +
			"or lbfgs, as the link is softmax",
		"run --until end": "stages.0.link: identity: expected softmax or logistic, for `run` on sparse rows",
		"run --until end --set stages.0.features.kind=gradient": "stages.0.features.kind: gradient: expected columns or class_counts, " +
			"for `run` on sparse rows",
		"train --set examples.train=train.csv --set examples.test= --set name=t": "prepare.min_rows: the examples are dense, and " +
			"this is for sparse rows, such as those of LIBSVM files: remove it",
	} {
		if err := os.RemoveAll(".stagewise"); err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(args)
		code, _, stderr := stagewise(append([]string{fields[0], "-c", "counted.yaml"}, fields[1:]...)...)
		if code == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", args, code, stderr, want)
		}
	}
}

// A file of texts and labels is trained on with five lines, and predict takes texts. How the words are counted is a part of the version.
func TestTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var mail, texts strings.Builder
	mail.WriteString("kind,message\n")
	about := map[string][]string{"sport": strings.Fields("match goal team coach league win"),
		"food": strings.Fields("soup bread oven salt cook dish")}
	kinds := []string{"sport", "food"}
	for i := range 400 {
		kind, words := kinds[i%2], []string{}
		for range 8 {
			if r.IntN(2) == 0 {
				words = append(words, strings.Fields("The of, and \"today\" we")[r.IntN(5)])
			} else {
				words = append(words, about[kind][r.IntN(6)])
			}
		}
		text := strconv.Quote(strings.ReplaceAll(strings.Join(words, " "), `"`, "'"))
		fmt.Fprintf(&mail, "%s,%s\n", kind, text)
		fmt.Fprintln(&texts, text)
	}
	for _, set := range [][]string{
		nil, {"--set", "examples.words.columns=1000", "--set", "examples.words.phrases=2"},
		{"--set", "examples.words.vocabulary=counted"}, {"--set", "examples.words.vocabulary=counted", "--set", "examples.words.columns=20", "--set", "examples.words.phrases=2"},
	} {
		inFolder(t, map[string]string{"mail.csv": mail.String(), "texts.csv": texts.String(), "counted.yaml": `
name: mail
examples: {train: mail.csv, text: message, label: kind}
prepare: {values: log1p, idf: 1, scale: unit}
stages:
  - {features: {kind: columns}, link: identity}
`})
		reportOf(t, append(set, "--model", "model")...)
		wrong, labels := 0, predicted(t, "-i", "texts.csv")
		for i, label := range labels {
			if label != kinds[i%2] {
				wrong++
			}
		}
		if wrong > 8 || len(labels) != 400 {
			t.Errorf("%q: %d labels, %d of them wrong", set, len(labels), wrong)
		}
		code, whole, _ := stagewise("predict", "--model", "model", "-i", "mail.csv")
		_, alone, _ := stagewise("predict", "--model", "model", "-i", "texts.csv")
		if code != exitDone || whole != alone {
			t.Errorf("%q: texts with their labels have other predictions", set)
		}
	}
}

// The words of a counted vocabulary are columns of the version: a run that starts from it needs the same, and files to find them in.
func TestCountedVocabularyIsOfTheVersion(t *testing.T) {
	inFolder(t, map[string]string{
		"mail.csv": "kind,message\n" + strings.Repeat("sport,the goal\nfood,the soup\n", 20), "more.csv": "kind,message\n" + strings.Repeat("food,bread\nsport,the team\n", 20), "counted.yaml": `
name: mail
examples: {train: mail.csv, text: message, label: kind, words: {vocabulary: counted}}
stages:
  - {features: {kind: columns}, link: identity}
`})
	reportOf(t, "--model", "model")
	reportOf(t, "--set", "warm=latest")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--set", "warm=latest", "--set", "examples.train=[mail.csv, more.csv]"}, "warm start from version 2: other words than this run's: a warm start needs the same words, which examples.words.vocabulary: hashed always has"},
		{[]string{"--set", "examples.train=[]"}, "words.vocabulary: counted: expected files under examples.train, in which its words are found"},
	} {
		if code, _, stderr := stagewise(append([]string{"train", "-c", "counted.yaml"}, c.args...)...); code == exitDone ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%q: code %d: %s, expected %s", c.args, code, stderr, c.want)
		}
	}
	if code, _, stderr := stagewise("check", "-c", "counted.yaml"); code != exitDone {
		t.Errorf("check: code %d: %s", code, stderr)
	}
}
