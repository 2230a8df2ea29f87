package page

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// made returns a run of equal stages with a ridge, that has made a version.
func made(title string, ridge schemas.Ridge, stages int) Compared {
	half, third := 50.0, 0.3
	plan := &schemas.Plan{Name: "p", Seed: 1, Submission: title, Spans: coverage.Spans{{Partition: 0, From: 0, To: 9}},
		Sources: []schemas.SourceSeal{{ID: strings.Repeat("a", 64)}}}
	report := &schemas.Report{Labels: []string{"<b>", "b"}, Seconds: 1.5, WeightsDigest: "0123456789abcdef",
		Splits: map[string]schemas.SplitReport{
			"train": {Rows: 80, Error: 10, Loss: 0.2},
			"test": {Rows: 20, Error: 50, Loss: 0.3, Confusion: [][]int64{{7, 3}, {7, 3}}, Reliability: []schemas.ReliabilityBin{{Weight: 20,
				Confidence: 0.75, Accuracy: 0.5}}},
		}}
	for t := range stages {
		plan.Stages = append(plan.Stages, schemas.Stage{Link: "softmax", Ridge: ridge, Passes: 12})
		report.Stages = append(report.Stages, schemas.StageReport{Stage: t, Passes: 2, TrainError: 10, TrainLoss: 0.2, TestError: &half,
			TestLoss: &third, ByPass: []schemas.PassReport{
				{Pass: 1, TrainError: 90, TrainLoss: 2.3, TestError: &half, TestLoss: &third}, {Pass: 2, TrainError: 10, TrainLoss: 0.02, TestError: &half, TestLoss: &third}}})
	}
	return Compared{Title: title, State: "done", Plan: plan, Report: report}
}

// Differences has the fields that differ, and no others: equal stages are one row, and other stages rows of their own.
func TestDifferences(t *testing.T) {
	a, b, c := made("a", 0.001, 2), made("b", 0.25, 2), made("c", 0.25, 2)
	expect := func(runs []Compared, want ...string) {
		t.Helper()
		var got []string
		for _, row := range Differences(runs) {
			got = append(got, row.Name+" "+strings.Join(row.Values, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("differences %q, expected %q", got, want)
		}
	}
	expect([]Compared{b, c})
	expect([]Compared{a, b, c}, "stages.*.ridge 0.001 0.25 0.25")
	c.Plan.Stages[1].Ridge = 0.5
	c.Plan.Seed = 7
	expect([]Compared{a, c}, "seed 1 7", "stages.0.ridge 0.001 0.25", "stages.1.ridge 0.001 0.5")
	b.Plan.Stages = append(b.Plan.Stages, b.Plan.Stages[0])
	expect([]Compared{a, b}, "stages 2 3", "stages.*.ridge 0.001 0.25")
	expect([]Compared{a, {Title: "gone"}}, fieldNames(a)...)
}

// fieldNames returns the rows of a run beside one whose plan is gone.
func fieldNames(r Compared) (rows []string) {
	for _, row := range Fields(r) {
		rows = append(rows, row.Name+" "+row.Values[0]+" "+None)
	}
	return rows
}

// A run without a report has no values, and a measure that no run has is no row.
func TestMeasures(t *testing.T) {
	first := made("a", 1, 1)
	first.Report.Temperature = 1.35
	rows := Measures([]Compared{first, {Title: "b", State: "failed"}})
	find := func(name string) []string {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return rows[i].Values
	}
	for name, want := range map[string][]string{
		"state": {"done", "failed"}, "test error": {"50.00 %", None}, "train rows": {"80", None}, "passes": {"2", None},
		"temperature": {"1.35", None}, "weights digest": {"0123456789ab", None}, "holdout error": nil,
	} {
		if got := find(name); !slices.Equal(got, want) {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
}

// The page asks for nothing, its tables have captions, and texts of others are escaped.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	first := made("a", 0.001, 2)
	first.Galleries = []Gallery{{"filters", []Picture{{Shape: examples.Image{1, 1, 3}, Values: []float32{0, 127.5, 255}}}}}
	first.Bars = []Table{{Title: "importance", Caption: "of columns", Head: []string{"column"}, Rows: []Bar{{Name: "<b>", Length: 0.5}}}}
	if err := WritePage(&page, About{Title: "Runs compared", Pipeline: "p"}, []Compared{first, made("b", 0.25, 3), {Title: "c", State: "failed"}}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, outside := range []string{"http://", "https://", "src=", "href=", "url(", "@import", "ZgotmplZ", "<b>"} {
		if strings.Contains(strings.ReplaceAll(text, svgSpace, ""), outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	if tables, captions := strings.Count(text, "<table"), strings.Count(text, "<caption>"); tables != captions || tables != 3 {
		t.Errorf("%d tables with %d captions", tables, captions)
	}
	for _, want := range []string{"&lt;b&gt;", "width: 50%", `"Levels":"AH//"`, `"confusion":[[7,3],[7,3]]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// A page has no confusion matrix that nobody can read.
func TestPageOfManyClasses(t *testing.T) {
	var page bytes.Buffer
	run := made("a", 0.1, 2)
	s := run.Report.Splits["test"]
	s.Confusion = make([][]int64, mostClasses+1)
	run.Report.Splits["test"] = s
	if err := WritePage(&page, About{}, []Compared{run}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), `"confusion":[`) || run.Report.Splits["test"].Confusion == nil {
		t.Error("the page has the matrix, or the report has lost it")
	}
}

// svgSpace is a name, not an address.
const svgSpace = "http://www.w3.org/2000/svg"

// A picture goes from its least value to its highest one; a missing value and a picture of one value are black.
func TestPicture(t *testing.T) {
	for _, c := range []struct {
		shape  examples.Image
		values []float32
		want   []byte
	}{
		{examples.Image{1, 3, 1}, []float32{-1, 1, float32(math.NaN())}, []byte{0, 0, 0, 255, 255, 255, 0, 0, 0}},
		{examples.Image{1, 1, 3}, []float32{0, 127.5, 255}, []byte{0, 127, 255}},
		{examples.Image{1, 1, 1}, []float32{7}, []byte{0, 0, 0}},
	} {
		if got := (Picture{Shape: c.shape, Values: c.values}).drawn(); !bytes.Equal(got.Levels, c.want) {
			t.Errorf("%v: levels %v, expected %v", c.values, got.Levels, c.want)
		}
	}
}

// The table has runs as rows, the best first, which is marked, and in colour what is not as there. What all runs share is no column.
func TestTableOfRuns(t *testing.T) {
	worse, best, failed := made("a", 0.25, 1), made("b", 0.001, 1), Compared{Title: "c", State: "failed"}
	of := best.Report.Splits["test"]
	of.Error = 5
	best.Report.Splits["test"] = of
	runs := Order{}.Sorted([]Compared{failed, worse, best})
	table, _ := tablesOf(runs, Order{})
	var got []string
	for i, r := range table.Runs {
		text := r.Title
		for at, c := range table.Columns {
			if c.Name == "stages.*.ridge" || c.Name == "test error" {
				text += " " + c.Values[i]
				if table.Differs(at, i) {
					text += "!"
				}
			}
		}
		got = append(got, text)
	}
	if want := []string{"b 0.001 5.00 %", "a 0.25! 50.00 %", "c -! -"}; !slices.Equal(got, want) || table.Best != 0 {
		t.Errorf("rows %q, expected %q; the best is run %d", got, want, table.Best)
	}
	if table, more := tablesOf(runs[:2], Order{}); len(more.Columns) > 0 || !slices.Contains(table.Same, "train error 10.00 %") ||
		slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "train error" }) {
		t.Errorf("a measure that all share is a column: %+v", table)
	}
	if words := (Order{By: "loss"}).Words(runs); words != "log loss of the test rows" {
		t.Error(words)
	}
	if best := (Order{Split: "holdout"}).Best(runs); best != -1 {
		t.Errorf("run %d is the best by rows that none has", best)
	}
}

// Runs are sorted by each measure, the best first, whether that is the least or the greatest, and those that lack it last.
func TestOrders(t *testing.T) {
	var runs []Compared
	for i, v := range []float64{0.7, 0.9, 0.8} {
		r := made(fmt.Sprint(i), 1, 1)
		s := schemas.SplitReport{Rows: 20, Error: 10 * v, Loss: 2 * v, LogLoss: &v}
		s.AUC, s.AveragePrecision, s.BalancedError = new(v/2), new(v/4), new(20*v)
		r.Report.Splits = map[string]schemas.SplitReport{"holdout": s}
		runs = append(runs, r)
	}
	lacks := made("lacks", 1, 1)
	lacks.Report.Splits = map[string]schemas.SplitReport{"test": {Rows: 20}}
	runs = append(runs, lacks)
	for _, by := range Orders() {
		o, want := Order{Split: "holdout", By: by}, []int{0, 2, 1, 3}
		if by == "auc" || by == "average_precision" {
			want = []int{1, 2, 0, 3}
		}
		if got := o.Ranks(runs); !slices.Equal(got, want) || o.Best(runs) != want[0] {
			t.Errorf("by %s the order is %v, expected %v", by, got, want)
		}
		if text := o.Text(lacks.Report); text != None {
			t.Errorf("rows that there are none of have the %s %s", by, text)
		}
		table, _ := tablesOf(runs[:3], o)
		if by == "error" && slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "holdout balanced error" }) {
			t.Error("the first table has a measure that neither decides nor was asked for")
		}
		if !slices.ContainsFunc(table.Columns, func(c Row) bool { return c.Name == "holdout "+o.Measure() }) {
			t.Errorf("the first table lacks the %s", o.Measure())
		}
	}
}
