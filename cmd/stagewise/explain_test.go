package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/schemas"
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
		if code, _, stderr := stagewise(args...); code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
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
	predictions, err := csv.NewReader(strings.NewReader(predicted)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("test.csv")
	if err != nil {
		t.Fatal(err)
	}
	truth, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
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

// The same rows are explained alike on any number of processors, and a sample of them is the same each time.
func TestExplainIsReproducible(t *testing.T) {
	trainedGarden(t)
	args := []string{"explain", "--json", "-", "--model", "garden.model", "-i", "test.csv", "--rows", "50"}
	_, one, _ := stagewise(args...)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if _, other, _ := stagewise(args...); other != one || !strings.Contains(one, `"rows": 50`) {
		t.Errorf("%s\nis not\n%s", other, one)
	}
	if _, other, _ := stagewise(append(args, "--seed", "2")...); other == one {
		t.Error("another seed explains the same")
	}
}

// What is on the screen fits it, and a page has the same columns.
func TestExplainShows(t *testing.T) {
	trainedGarden(t)
	code, stdout, stderr := stagewise("explain", "--model", "garden.model", "-i", "test.csv", "--html", "garden.html", "--top", "3")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for line := range strings.Lines(stdout) {
		if n := len([]rune(line)) - 1; n > 80 {
			t.Errorf("%d characters in %q", n, line)
		}
	}
	for _, want := range []string{"100 rows of test.csv, version 1: error ", "and 3 less important columns: --top 6\n", "errors by length\n", "at most ",
		"mean probability if all rows had this value of colour", "yellow: pale", "with the largest loss, counted from 0"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	page, err := os.ReadFile("garden.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"</html>", `<th scope="row">colour</th>`, "Errors of these rows by their value of length", "yellow: pale"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(string(page), "ZgotmplZ") || strings.Contains(string(page), "<script") {
		t.Error("the page has a script, or what the template refused")
	}
}

// Of a model of numbers the squared error is explained.
func TestExplainOfNumbers(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("a,b,y\n")
	for i := range 300 {
		a := float64(i*7919%101) / 10
		fmt.Fprintf(&rows, "%v,%v,%v\n", a, i*31%17, 3*a+0.5)
	}
	inFolder(t, map[string]string{"line.csv": rows.String()})
	stagewise("init", "line.csv", "--label", "y")
	if code, _, stderr := stagewise("train", "-c", "stagewise.yaml", "--set", "stages=[{features: {kind: trees}, repeat: 4}]", "--quiet", "--model", "line.model"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	r := explained(t, "--model", "line.model", "-i", "line.csv")
	if r.Task != "regression" || r.Importance[0].Name != "a" || r.Importance[0].Rise.Error < 50 || r.Measures.Error > 10 {
		t.Errorf("%+v", r)
	}
	points := r.Dependence[0].Points
	for i, p := range points {
		if i > 0 && p.Mean[0] <= points[i-1].Mean[0] {
			t.Errorf("predictions don't rise with a: %+v", points)
		}
	}
	code, stdout, _ := stagewise("explain", "--model", "line.model", "-i", "line.csv")
	if code != exitDone || !strings.Contains(stdout, "% of the variance") || strings.Contains(stdout, "log loss") {
		t.Error(stdout)
	}
}

func TestExplainIsChecked(t *testing.T) {
	trainedGarden(t)
	test, err := os.ReadFile("test.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(test), "\n")
	for name, content := range map[string]string{
		"other.csv": strings.ReplaceAll(string(test), "tulip", "orchid"), "none.csv": strings.ReplaceAll(lines[0], "kind", "sort") + lines[1],
		"narrow.csv": "kind,length\niris,1\n", "strange.csv": lines[0] + strings.Replace(lines[1], ",x,", ",x,z", 1),
		"gaps.csv": lines[0] + strings.ReplaceAll(strings.ReplaceAll(lines[1]+lines[2]+lines[3], "tulip", ""), "rose", ""),
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"-i test.csv --rows 0", "--rows: 0: expected a whole number ≥ 1", exitWrong},
		{"-i test.csv --top 0", "--top: 0: expected", exitWrong},
		{"-i test.csv --permutations 0", "--permutations: 0: expected", exitWrong},
		{"-i test.csv --curves -1", "--curves: -1: expected", exitWrong},
		{"-i test.csv --json - --html -", "--json and --html: expected - for only one of them", exitWrong},
		{"-i test.csv --html none/a.html", "write none/a.html: stat none", exitWrong},
		{"-i test.csv --slice colours", `the model has no column "colours"`, exitFailed},
		{"-i test.csv --label sort", `no column "sort" with the labels: set --label to one of the columns "id"`, exitFailed},
		{"-i none.csv", `no column "kind" with the labels`, exitFailed},
		{"-i narrow.csv", "the file lacks columns that the model needs", exitFailed},
		{"-i nothing.csv", "nothing.csv: no such file or directory", exitFailed},
		{"-i strange.csv", "is not a number", exitFailed},
		{"-i garden.model", `no column "kind"`, exitFailed},
	} {
		code, stdout, stderr := stagewise(append([]string{"explain", "--model", "garden.model"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", c.args, code, stderr, c.want)
		}
	}
	all, known := explained(t, "--model", "garden.model", "-i", "test.csv"), explained(t, "--model", "garden.model", "-i", "other.csv")
	if known.Unknown == 0 || known.Rows+int(known.Unknown) != all.Rows {
		t.Errorf("%d rows, and %d with unknown labels, of %d", known.Rows, known.Unknown, all.Rows)
	}
	if code, _, stderr := stagewise("explain", "--model", "none.model", "-i", "test.csv"); code != exitFailed {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(&interruption{syscall.SIGINT})
	var out, errs bytes.Buffer
	if code := execute(ctx, []string{"explain", "--model", "garden.model", "-i", "test.csv"}, &out, &errs); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("exit code %d after Ctrl-C: %s", code, errs.String())
	}
}

// With -c the rows are those of the version's run that it has not learnt from, so the errors are those of the report: of labels and of
// numbers, of holdout rows, and of test rows if there are any.
func TestExplainRowsOfTheTopic(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	table := func(rows int) string {
		text := "size,colour,kind,weight\n"
		for range rows {
			k := random.IntN(3)
			text += fmt.Sprintf("%.3f,%s,%s,%.3f\n", float64(k)+random.NormFloat64(), []string{"red", "blue"}[random.IntN(2)],
				[]string{"iris", "rose", "tulip"}[k], float64(k)+random.NormFloat64()/4)
		}
		return text
	}
	inFolder(t, map[string]string{"train.csv": table(400), "test.csv": table(100)})
	write := func(name, examples string) (configuration string) {
		configuration = name + ".yaml"
		text := fmt.Sprintf("name: %s\ndata_dir: log-%s\nexamples: {train: [train.csv], header: true, %s}\nprepare: {scale: standard}\n"+
			"stages: [{features: {size: 64}}]\n", name, name, examples)
		if err := os.WriteFile(configuration, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return configuration
	}
	for name, test := range map[string]struct {
		examples, split string
	}{
		"labels":  {"label: kind, categorical: [colour], holdout: 0.25", "holdout"},
		"numbers": {"targets: [weight], categorical: [colour, kind], holdout: 0.25", "holdout"},
		"tested":  {"label: kind, categorical: [colour], test: [test.csv], holdout: 0.25", "test"},
	} {
		configuration := write(name, test.examples)
		code, stdout, stderr := stagewise("train", "-c", configuration, "--quiet", "--report", "-")
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		var report schemas.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil {
			t.Fatal(err)
		}
		want := report.Splits[test.split]
		if name == "numbers" {
			want.Loss *= 2 // a report has half the squared error
		}
		r := explained(t, "-c", configuration)
		if int64(r.Rows) != want.Rows || math.Abs(r.Measures.Loss-want.Loss) > 1e-4 {
			t.Errorf("%s: %d rows of loss %v, the report has %d of loss %v", name, r.Rows, r.Measures.Loss, want.Rows, want.Loss)
		}
		if few := explained(t, "-c", configuration, "--rows", "10"); few.Rows != 10 {
			t.Errorf("%s: %d rows, expected 10 that are drawn", name, few.Rows)
		}
	}
	if code, _, stderr := stagewise("train", "-c", write("none", "label: kind, categorical: [colour]"), "--quiet"); code != exitDone {
		t.Fatal(stderr)
	}
	if code, _, stderr := stagewise("explain", "-c", "none.yaml"); code != exitFailed || !strings.Contains(stderr, "set examples.holdout") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, args := range [][]string{{"-c", "none.yaml", "--model", "m"}, {"--model", "m"}, {"--model", "m", "-i", "test.csv", "--version", "1"}} {
		if code, _, stderr := stagewise(append([]string{"explain"}, args...)...); code != exitWrong || !strings.Contains(stderr, "expected") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}
