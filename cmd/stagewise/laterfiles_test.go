package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline"
)

const daysConfiguration = `name: days
examples: {train: ["day1.csv"], label: kind, categorical: [colour], partitions: 2, batch_rows: 50}
stages: [{features: {kind: columns}, passes: 4}]
retrain: {rows: 50}
`

// day returns rows whose kind is told by a number and a colour, with the columns in an order.
func day(first, rows int, order ...string) string {
	lines := []string{strings.Join(order, ",")}
	for i := first; i < first+rows; i++ {
		of := map[string]string{"size": fmt.Sprint(i % 7), "colour": []string{"red", "blue"}[i%2], "time": fmt.Sprint(1764000000000 + 1000*i),
			"kind": []string{"a", "b"}[i%2], "more": "1"}
		var fields []string
		for _, name := range order {
			fields = append(fields, of[name])
		}
		lines = append(lines, strings.Join(fields, ","))
	}
	return strings.Join(lines, "\n") + "\n"
}

// runUntilEnd runs a chain on files, and returns the rows of its updates and what it printed.
func runUntilEnd(t *testing.T, configuration string, files ...string) (rows int64, code int, printed string) {
	t.Helper()
	code, stdout, stderr := stagewise("run", "-c", configuration, "--until", "end", "--report", "report.json", "--set",
		"examples.train="+strings.Join(files, ","))
	if code != exitDone {
		return 0, code, stdout + stderr
	}
	report := new(pipeline.Retraining)
	content, err := os.ReadFile("report.json")
	if err != nil || json.Unmarshal(content, report) != nil {
		t.Fatalf("%v: %s", err, content)
	}
	for _, u := range report.Updates {
		rows += u.Rows
	}
	return rows, code, stdout + stderr
}

// A chain learns the rows of a later file with the columns in any order, and refuses a file with other columns before anything is
// ingested.
func TestRunAlignsLaterFiles(t *testing.T) {
	inFolder(t, map[string]string{
		"days.yaml":   daysConfiguration,
		"day1.csv":    day(0, 100, "size", "colour", "time", "kind"),
		"day2.csv":    day(100, 100, "time", "kind", "colour", "size"),
		"lacks.csv":   day(200, 100, "size", "colour", "kind"),
		"more.csv":    day(300, 100, "size", "more", "colour", "time", "kind"),
		"other.csv":   day(400, 100, "more", "colour", "time", "kind"),
		"one-red.csv": "size,colour,time,kind\n1,red,1764000000000,a\n2,red,1764000001000,a\n3,green,1764000001000,b\n",
	})
	if rows, code, printed := runUntilEnd(t, "days.yaml", "day1.csv"); code != exitDone || rows != 100 {
		t.Fatalf("exit code %d, %d rows: %s", code, rows, printed)
	}
	rows, code, printed := runUntilEnd(t, "days.yaml", "day1.csv", "day2.csv")
	if code != exitDone || rows != 100 || strings.Contains(printed, "quarantine") {
		t.Fatalf("exit code %d, %d rows: %s", code, rows, printed)
	}
	for file, want := range map[string]string{
		"lacks.csv": `lacks.csv: the file lacks the column "time"`, "more.csv": `more.csv: the file also has the column "more"`,
		"other.csv": `other.csv: the file lacks the column "size" and has "more"`,
	} {
		for _, command := range []string{"run", "ingest"} {
			arguments := []string{command, "-c", "days.yaml", "--set", "examples.train=day1.csv," + file}
			if command == "run" {
				arguments = append(arguments, "--until", "end")
			}
			code, stdout, stderr := stagewise(arguments...)
			if code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "of the chain") {
				t.Errorf("%s %s: exit code %d: %s%s", command, file, code, stdout, stderr)
			}
		}
	}
	if rows, code, printed := runUntilEnd(t, "days.yaml", "one-red.csv"); code != exitDone || rows != 3 {
		t.Fatalf("exit code %d, %d rows: %s", code, rows, printed)
	}
	code, stdout, stderr := stagewise("sources", "list", "-c", "days.yaml")
	if code != exitDone || strings.Count(stdout, ".csv") != 3 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	checkKindsOf(t, "day2.csv")
}

// checkKindsOf checks that the newest version predicts the rows of a day.
func checkKindsOf(t *testing.T, file string) {
	t.Helper()
	typed(t, exitDone, "weights", "export", "-c", "days.yaml", "-o", "days.model")
	predicted, _ := typed(t, exitDone, "predict", "--model", "days.model", "-i", file)
	lines, wrong := strings.Split(strings.TrimSpace(predicted), "\n")[1:], 0
	for i, line := range lines {
		if !strings.HasPrefix(line, []string{"a", "b"}[i%2]) {
			wrong++
		}
	}
	if len(lines) != 100 || wrong > 2 {
		t.Errorf("%d of %d rows are wrong: %s", wrong, len(lines), predicted)
	}
}

// Rows of a later LIBSVM file that a chain makes dense may have fewer columns than it has learnt, and no others.
func TestRunTakesNarrowerSparseFiles(t *testing.T) {
	rows := func(columns int) string {
		var text strings.Builder
		for i := range 60 {
			fmt.Fprintf(&text, "%d 1:%d 2:%d %d:1\n", i%2, i%2, i%5, columns)
		}
		return text.String()
	}
	inFolder(t, map[string]string{
		"days.yaml": "name: days\nexamples: {train: [day1.svm], partitions: 2, batch_rows: 20}\n" +
			"stages: [{features: {kind: rff, size: 16}, passes: 2}]\nretrain: {rows: 20}\n",
		"day1.svm": rows(8), "narrow.svm": rows(4), "wide.svm": rows(9),
	})
	for _, file := range []string{"day1.svm", "narrow.svm"} {
		if rows, code, printed := runUntilEnd(t, "days.yaml", file); code != exitDone || rows != 60 || strings.Contains(printed, "quarantine") {
			t.Fatalf("%s: exit code %d, %d rows: %s", file, code, rows, printed)
		}
	}
	_, code, printed := runUntilEnd(t, "days.yaml", "wide.svm")
	if want := "of the chain has learnt have indices from 1 to 8"; code != exitFailed ||
		!strings.Contains(printed, want) {
		t.Errorf("exit code %d: %s", code, printed)
	}
}

// A chain learns of a file that has grown what was added to it, however often it grows. Rows that it would learn twice are refused.
func TestRunLearnsWhatAFileHasGrown(t *testing.T) {
	whole := day(0, 400, "size", "colour", "time", "kind")
	upTo := func(rows int) string { return strings.Join(strings.SplitAfter(whole, "\n")[:1+rows], "") }
	inFolder(t, map[string]string{"days.yaml": daysConfiguration, "day.csv": upTo(120)})
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	learn := func(file string, want int64) {
		t.Helper()
		if rows, code, printed := runUntilEnd(t, "days.yaml", file); code != exitDone || rows != want || strings.Contains(printed, "quarantine") {
			t.Fatalf("exit code %d, %d rows, expected %d: %s", code, rows, want, printed)
		}
	}
	learn("day.csv", 120)
	learn("day.csv", 0)
	write("day.csv", upTo(200))
	learn("day.csv", 80)
	write("copy.csv", upTo(200))
	learn("copy.csv", 0)
	write("day.csv", strings.TrimSuffix(upTo(260), "\n"))
	learn("day.csv", 60)
	write("day.csv", upTo(300))
	learn("day.csv", 40)
	code, stdout, stderr := stagewise("run", "-c", "days.yaml", "--until", "end", "--set", "examples.train=day.csv", "--set",
		"examples.missing_values=none")
	if code != exitFailed || !strings.Contains(stderr, "ingested with other keys") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = stagewise("train", "-c", "days.yaml", "--set", "examples.train=day.csv", "--report", "-", "--set",
		"examples.missing_values=none") // a run of these files alone
	if code != exitDone || !strings.Contains(stdout, `"rows": 300`) && !strings.Contains(stdout, `"rows":300`) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = stagewise("run", "-c", "days.yaml", "--until", "end", "--set", "examples.train=day.csv")
	if code != exitFailed || !strings.Contains(stderr, "would learn them twice") || !strings.Contains(stderr, "stagewise sources remove") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// What was added to a file is not ingested alone if its last row was cut, or if it is compressed.
func TestGrownFilesThatAreRefused(t *testing.T) {
	whole := day(0, 120, "kind", "colour", "size", "time")
	for want, contents := range map[string][2]string{
		"its last row was incomplete": {whole[:len(whole)-5], whole},
		"to a compressed file":        {packed(t, whole), packed(t, whole) + packed(t, "a,red,1,1764000000000\n")},
	} {
		inFolder(t, map[string]string{"days.yaml": daysConfiguration, "day.csv": contents[0]})
		if rows, code, printed := runUntilEnd(t, "days.yaml", "day.csv"); code != exitDone || rows != 120 {
			t.Fatalf("exit code %d, %d rows: %s", code, rows, printed)
		}
		if err := os.WriteFile("day.csv", []byte(contents[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		_, code, printed := runUntilEnd(t, "days.yaml", "day.csv")
		if code != exitFailed || !strings.Contains(printed, want) || !strings.Contains(printed, "sources remove") {
			t.Errorf("exit code %d: %s; expected %s", code, printed, want)
		}
	}
}

// packed compresses a text.
func packed(t *testing.T, text string) string {
	t.Helper()
	var into bytes.Buffer
	w := gzip.NewWriter(&into)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return into.String()
}

// The first version of a chain learns files beside rows that `ingest` has left on the topic: with their columns in any order and words that
// those have not, and not with other columns.
func TestFirstRunAlignsFilesWithIngestedRows(t *testing.T) {
	inFolder(t, map[string]string{
		"days.yaml": daysConfiguration,
		"day1.csv":  day(0, 100, "size", "colour", "time", "kind"),
		"day2.csv":  strings.Replace(day(100, 100, "time", "kind", "colour", "size"), "red", "green", 1),
		"more.csv":  day(300, 100, "size", "more", "colour", "time", "kind"),
	})
	if code, stdout, stderr := stagewise("ingest", "-c", "days.yaml"); code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	want := `more.csv: the file also has the column "more", unlike the rows that were ingested before`
	if _, code, printed := runUntilEnd(t, "days.yaml", "more.csv"); code != exitFailed || !strings.Contains(printed, want) {
		t.Fatalf("exit code %d: %s", code, printed)
	}
	for _, files := range [][]string{{"day2.csv"}, {"day1.csv", "day2.csv"}} {
		rows, code, printed := runUntilEnd(t, "days.yaml", files...)
		if want := int64(400 - 200*len(files)); code != exitDone || rows != want || strings.Contains(printed, "quarantine") {
			t.Fatalf("%s: exit code %d, %d rows, expected %d: %s", files, code, rows, want, printed)
		}
	}
	code, stdout, stderr := stagewise("sources", "list", "-c", "days.yaml")
	if code != exitDone || strings.Count(stdout, ".csv") != 2 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	checkKindsOf(t, "day2.csv")
}
