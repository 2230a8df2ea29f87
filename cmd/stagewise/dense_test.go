package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// measured returns rows of numbers as CSV and as LIBSVM, with indices from base on and without their zeros.
func measured(rows int, seed uint64, base int) (csv, libsvm string) {
	r := rand.New(rand.NewPCG(seed, 1))
	var table, sparse strings.Builder
	for i := range rows {
		fmt.Fprintf(&table, "%d", i%3)
		fmt.Fprintf(&sparse, "%d", i%3)
		for j := range 40 {
			v := float64(r.IntN(4)) / 4 * float64(1+j%7)
			if j%3 == i%3 {
				v += 0.5
			}
			if table.WriteString("," + strconv.FormatFloat(v, 'g', -1, 64)); v != 0 {
				fmt.Fprintf(&sparse, " %d:%g", j+base, v)
			}
		}
		table.WriteString("\n")
		sparse.WriteString("\n")
	}
	return table.String(), sparse.String()
}

// Stages that need dense rows get those of a LIBSVM file: a version has the bits of that of the same rows in CSV, wherever indices begin,
// and predicts both files alike. The rows stay sparse for stages that take them, or if the configuration says so.
func TestDenseLIBSVM(t *testing.T) {
	files := map[string]string{"c.yaml": `name: dense
data_dir: d
examples: {train: train.csv, test: test.csv, batch_rows: 100}
stages: [{features: {kind: rff, size: 64}, passes: 4}]
`}
	for base := range 2 {
		files["train.csv"], files[fmt.Sprintf("train%d.svm", base)] = measured(500, 1, base)
		files["test.csv"], files[fmt.Sprintf("test%d.svm", base)] = measured(200, 2, base)
	}
	inFolder(t, files)
	train := func(base string, args ...string) (digest string, testError float64) {
		if err := os.RemoveAll("d"); err != nil {
			t.Fatal(err)
		}
		if base != "" {
			args = append(args, "--set", "examples.train=train"+base+".svm", "--set", "examples.test=test"+base+".svm")
		}
		report := reportIn(t, "c.yaml", append(args, "--model", "model"+base)...)
		return string(report.WeightsDigest), *report.TestError
	}
	for _, stages := range []string{
		"[{features: {kind: rff, size: 64}, passes: 4}]",
		"[{features: {kind: sorf, size: 64}, passes: 4}, {features: {kind: rff, size: 32}, passes: 3, scores: true}]",
		"[{features: {kind: trees, size: 64, leaves: 8, sample: 256}}]",
	} {
		set := []string{"--set", "stages=" + stages, "--set", "prepare.scale=standard"}
		want, wantError := train("", set...)
		for _, base := range []string{"0", "1"} {
			if got, testError := train(base, set...); got != want || testError != wantError {
				t.Errorf("%s: indices from %s: digest %s and a test error of %v, of CSV %s and %v", stages, base, got, testError, want, wantError)
			}
			want := predictions(t, "--model", "model", "-i", "test.csv")
			for _, file := range []string{"test.csv", "test" + base + ".svm"} {
				if predictions(t, "--model", "model"+base, "-i", file) != want {
					t.Errorf("%s: predictions of %s differ", stages, file)
				}
			}
		}
	}
	sparse, _ := train("1", "--set", "stages=[{features: {kind: columns}, passes: 4}]")
	if same, _ := train("1", "--set", "stages=[{features: {kind: columns}, passes: 4}]", "--set", "examples.rows=sparse"); same != sparse {
		t.Error("rows for stages that take sparse ones do not stay sparse")
	}
	if dense, _ := train("1", "--set", "stages=[{features: {kind: columns}, passes: 4}]", "--set", "examples.rows=dense"); dense == sparse {
		t.Error("rows are not made dense")
	}
	if code, _, stderr := stagewise("train", "-c", "c.yaml", "--set", "examples.rows=sparse", "--set", "examples.train=train1.svm", "--set",
		"examples.test=null", "--set", "name=s"); code != exitFailed || !strings.Contains(stderr, "or for LIBSVM files examples.rows to dense") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := stagewise("predict", "--model", "model1", "-i", "test0.svm"); code != exitFailed ||
		!strings.Contains(stderr, "the columns that the model was trained on begin at 1") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// predictions returns what predict writes.
func predictions(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := stagewise(append([]string{"predict"}, args...)...)
	if code != exitDone {
		t.Fatalf("predict %q: exit code %d: %s", args, code, stderr)
	}
	return stdout
}
