package main

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
)

// decided trains with a threshold, and returns the report and the version.
func decided(t *testing.T, settings ...string) (*schemas.Report, *model.Model) {
	t.Helper()
	args := []string{"train", "-c", "rare.yaml", "--quiet", "--report", "report.json", "--model", "rare.model"}
	for _, set := range settings {
		args = append(args, "--set", set)
	}
	if code, stdout, stderr := stagewise(args...); code != exitDone {
		t.Fatalf("%q: exit code %d: %s%s", settings, code, stdout, stderr)
	}
	report := new(schemas.Report)
	noError(t, json.Unmarshal([]byte(readFile(t, "report.json")), report))
	file := valueOf(os.Open("rare.model"))(t)
	defer file.Close()
	m := valueOf(model.Read(file))(t)
	return report, m
}

// A threshold that is chosen by costs is part of the version, and predict gives the rare class from it on, as the report counts. The
// weights and probabilities are those of no threshold. More than two classes have none.
func TestThreshold(t *testing.T) {
	long(t)
	schema := reportSchema(t)
	inFolder(t, map[string]string{"rare.yaml": rareConfiguration, "three.csv": strings.Repeat("a,1,2\nb,2,1\nc,3,3\n", 20)})
	write600(t, "train.csv", []byte(rareRows(3000, 1)))
	write600(t, "test.csv", []byte(rareRows(1000, 2)))
	plain, without := decided(t, "examples.holdout=0.1")
	if without.Manifest.Threshold != 0 || plain.Splits["test"].Decided != nil {
		t.Errorf("without the key the threshold is %v", without.Manifest.Threshold)
	}
	for _, setting := range []string{"{cost: {fp: 1, fn: 20}}", "best_f1", "0.3"} {
		report, m := decided(t, "examples.holdout="+map[bool]string{true: "null", false: "0.1"}[setting != "0.3"], "threshold="+setting)
		checkReport(t, schema, []byte(readFile(t, "report.json")))
		d := report.Splits["test"].Decided
		if d == nil || d.Threshold != m.Manifest.Threshold || setting == "0.3" && d.Threshold != 0.3 || !(d.Threshold > 0 && d.Threshold < 1) {
			t.Fatalf("%s: the report has %+v, the version %v", setting, d, m.Manifest.Threshold)
		}
		if report.WeightsDigest != plain.WeightsDigest || report.Splits["test"].Error != plain.Splits["test"].Error {
			t.Errorf("%s: the threshold changes what is learnt", setting)
		}
		if setting[0] == '{' && !(d.Threshold < 0.2 && d.Recall > 0.7 && d.Recall > plain.Splits["test"].Recall[1]) {
			t.Errorf("where a rare row that is missed costs 20, the threshold is %v, and %v of them are found", d.Threshold, d.Recall)
		}
		if holdout := report.Splits["holdout"]; setting == "best_f1" && holdout.Decided.F1 < holdout.F1[1] {
			t.Errorf("the best F1 of the holdout rows is %v, that of the most probable class %v", holdout.Decided.F1, holdout.F1[1])
		}
		code, stdout, stderr := stagewise("predict", "--model", "rare.model", "-i", "test.csv")
		rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		if code != exitDone || err != nil || len(rows) != 1001 {
			t.Fatalf("%s: exit code %d: %s%v", setting, code, stderr, err)
		}
		var counts [2][2]float64
		truth := strings.Split(readFile(t, "test.csv"), "\n")
		for i, row := range rows[1:] {
			p, err := strconv.ParseFloat(row[2], 32)
			if given := row[0] == "rare"; err != nil || given != (p >= d.Threshold) {
				t.Fatalf("%s: a row is %v from %v on", setting, row, d.Threshold)
			}
			of := map[bool]int{true: 1}
			counts[of[strings.HasPrefix(truth[i], "rare")]][of[row[0] == "rare"]]++
		}
		if counts != d.Confusion || math.Abs(d.Error-(counts[0][1]+counts[1][0])/10) > 1e-9 {
			t.Errorf("%s: predict decides %v, the report has %+v", setting, counts, d)
		}
		var features []string
		for _, line := range truth[:300] {
			_, values, _ := strings.Cut(line, ",")
			features = append(features, "["+values+"]")
		}
		_, labels := asked(t, serving(t, "url=", "--model", "rare.model"), `{"rows": [`+strings.Join(features, ",")+"]}")
		for i, label := range labels {
			if len(labels) != 300 || label != rows[i+1][0] {
				t.Fatalf("%s: serve gives a row %q, predict %q", setting, label, rows[i+1][0])
			}
		}
	}
	code, _, stderr := stagewise("train", "-c", "rare.yaml", "--quiet", "--set", "examples.train=three.csv", "--set", "examples.test=[]", "--set",
		"threshold=0.3")
	if code != exitFailed || !strings.Contains(stderr, "threshold: 0.3: expected no value, because there are 3 classes") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
