package compare

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// made returns a run of equal stages with a ridge, that has made a version.
func made(title string, ridge schemas.Ridge, stages int) Run {
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
	return Run{Title: title, State: "done", Plan: plan, Report: report}
}

// Differences has the fields that differ, and no others: equal stages are one row, and other stages rows of their own.
func TestDifferences(t *testing.T) {
	a, b, c := made("a", 0.001, 2), made("b", 0.25, 2), made("c", 0.25, 2)
	expect := func(runs []Run, want ...string) {
		t.Helper()
		var got []string
		for _, row := range Differences(runs) {
			got = append(got, row.Name+" "+strings.Join(row.Values, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("differences %q, expected %q", got, want)
		}
	}
	expect([]Run{b, c})
	expect([]Run{a, b, c}, "stages.*.ridge 0.001 0.25 0.25")
	c.Plan.Stages[1].Ridge = 0.5
	c.Plan.Seed = 7
	expect([]Run{a, c}, "seed 1 7", "stages.0.ridge 0.001 0.25", "stages.1.ridge 0.001 0.5")
	b.Plan.Stages = append(b.Plan.Stages, b.Plan.Stages[0])
	expect([]Run{a, b}, "stages 2 3", "stages.*.ridge 0.001 0.25")
	expect([]Run{a, {Title: "gone"}}, fieldNames(a)...)
}

// fieldNames returns the rows of a run beside one whose plan is gone.
func fieldNames(r Run) (rows []string) {
	for _, row := range Fields(r) {
		rows = append(rows, row.Name+" "+row.Values[0]+" "+None)
	}
	return rows
}

// A run without a report has no values, and a measure that no run has is no row.
func TestMeasures(t *testing.T) {
	first := made("a", 1, 1)
	first.Report.Temperature = 1.35
	rows := Measures([]Run{first, {Title: "b", State: "failed"}})
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

// The page asks for nothing: no address, no script. Its diagrams have titles and its tables captions, and texts of others are escaped.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	if err := WritePage(&page, About{Title: "Runs compared", Pipeline: "p"}, []Run{made("a", 0.001, 2), made("b", 0.25, 3),
		{Title: "c", State: "failed"}}); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, outside := range []string{"http", "src=", "href=", "url(", "@import", "<script", "ZgotmplZ"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	if strings.Contains(text, "<b>") || !strings.Contains(text, "&lt;b&gt;") || !strings.Contains(text, "prefers-color-scheme: dark") {
		t.Error("a label is not escaped, or the page is not dark where the reader wants it")
	}
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	count, before := map[string]int{}, ""
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		name := element.Name.Local
		count[name]++
		if want := map[string]string{"table": "caption", "svg": "title"}[before]; want != "" && name != want {
			t.Errorf("a %s begins with %q, expected a %s", before, name, want)
		}
		if before = name; slices.ContainsFunc(element.Attr, func(a xml.Attr) bool { return a.Name.Local == "aria-hidden" }) {
			before = "" // it only shows the colour of a run
		}
	}
	// three keys, in each table of runs too, eight diagrams by stage and pass, one of reliability with its diagonal
	tables := strings.Count(text, `<table class="runs`)
	if want := 3*(1+tables) + 8 + 1; tables < 2 || count["svg"] != want || count["polyline"] != 2*9+1 {
		t.Errorf("%d tables of runs, and %d drawings with %d lines, expected %d with 19", tables, count["svg"], count["polyline"], want)
	}
	// The test rows of each run in two classes: 7 of 10 right, and 3 of 10.
	if got := len(regexp.MustCompile(`<td class="right">[73]</td>`).FindAllString(text, -1)); got != 4 {
		t.Errorf("%d cells of right predictions, expected 4", got)
	}
}

// All points are within the drawing, whatever the values are.
func TestChartsFit(t *testing.T) {
	for _, ys := range [][]float64{{0, 0}, {1e-9, 5}, {1e300, 1e-300}, {3, 3, 3}, {0, 100}} {
		var v values
		for i, y := range ys {
			v.xs, v.ys = append(v.xs, float64(i+1)), append(v.ys, y)
		}
		c, ok := newChart("id", "title", "x", "y", []values{v}, false)
		if !ok || len(c.Lines) != 1 || len(c.Lines[0].Marks) != len(ys) {
			t.Fatalf("%v: %+v", ys, c)
		}
		for _, m := range c.Lines[0].Marks {
			if !(m.X >= left && m.X <= right && m.Y >= top && m.Y <= bottom) {
				t.Errorf("%v: %+v is outside", ys, m)
			}
		}
	}
	for _, few := range []values{{}, {xs: []float64{1}, ys: []float64{3}}} {
		if _, ok := newChart("id", "title", "x", "y", []values{few}, false); ok {
			t.Errorf("a diagram of %v", few)
		}
	}
	if got := fmt.Sprint(at(10, 20, 0.25)); got != "12.5" {
		t.Errorf("a quarter of the way from 10 to 20 is %s", got)
	}
}

// Ticks are round: 1, 2 or 5 times a power of ten, at most six or so of them, from below the values to above them.
func TestTicksAreRound(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 3.276, false, "0 1 2 3 4"}, {0, 0.041, false, "0 0.01 0.02 0.03 0.04 0.05"}, {0, 100, false, "0 20 40 60 80 100"}, {0, 7, false, "0 2 4 6 8"},
		{0.0117, 2.303, true, "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5"}, {0.004, 90, true, "0.001 0.01 0.1 1 10 100"}, {20, 45, true, "20 50"},
	} {
		ticks := linearTicks(c.low, c.high, 5)
		if c.log {
			ticks = logTicks(c.low, c.high)
		}
		var got []string
		for _, v := range ticks {
			got = append(got, tickText(v))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%g to %g: %v, expected %s", c.low, c.high, got, c.want)
		}
	}
}

// The table has runs as rows, the best first, which is marked, and in colour what is not as there. What all runs share is no column.
func TestTableOfRuns(t *testing.T) {
	worse, best, failed := made("a", 0.25, 1), made("b", 0.001, 1), Run{Title: "c", State: "failed"}
	of := best.Report.Splits["test"]
	of.Error = 5
	best.Report.Splits["test"] = of
	runs := Order{}.Sorted([]Run{failed, worse, best})
	table, _ := tablesOf(runs, Order{})
	var got []string
	for _, r := range table.Rows {
		text := r.Title
		if r.Best {
			text += " best"
		}
		for _, c := range r.Cells {
			if c.Name == "stages.*.ridge" || c.Name == "test error" {
				text += " " + c.Value
				if c.Differs {
					text += "!"
				}
			}
		}
		got = append(got, text)
	}
	if want := []string{"b best 0.001 5.00 %", "a 0.25! 50.00 %", "c -! -"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, expected %q", got, want)
	}
	if table, more := tablesOf(runs[:2], Order{}); len(more.Columns) > 0 || !slices.Contains(table.Same, "train error 10.00 %") ||
		slices.ContainsFunc(table.Columns, func(c column) bool { return c.Name == "train error" }) {
		t.Errorf("a measure that all share is a column: %+v", table)
	}
	if words := (Order{By: "loss"}).Words(runs); words != "log loss of the test rows" {
		t.Error(words)
	}
	if best := (Order{Split: "holdout"}).Best(runs); best != -1 {
		t.Errorf("run %d is the best by rows that none has", best)
	}
}

// A diagram of one point says nothing, and runs behind the eighth have no colour that another has.
func TestManyRuns(t *testing.T) {
	var runs []Run
	for i := range 12 {
		r := made(fmt.Sprint("run ", i), schemas.Ridge(0.1*float64(i+1)), 1)
		r.Report.Splits = map[string]schemas.SplitReport{"test": {Rows: 20, Error: float64(12 - i)}}
		runs = append(runs, r)
	}
	colours := map[int]int{}
	for _, c := range charts(Order{}.Sorted(runs)) {
		if strings.Contains(c.ID, "-stage-") {
			t.Errorf("%s has one point a run", c.Title)
		}
		for _, l := range c.Lines {
			if c.ID == "error-pass-test" {
				colours[l.Run]++
			}
		}
	}
	for colour := range maxRuns {
		if colours[colour] != 1 {
			t.Errorf("%d runs have colour %d", colours[colour], colour)
		}
	}
	if colours[maxRuns] != 4 {
		t.Errorf("%d runs are without a colour, expected 4", colours[maxRuns])
	}
}

// Runs are sorted by each measure, the best first, whether that is the least or the greatest, and those that lack it last.
func TestOrders(t *testing.T) {
	var runs []Run
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
		if by == "error" && slices.ContainsFunc(table.Columns, func(c column) bool { return c.Name == "holdout balanced error" }) {
			t.Error("the first table has a measure that neither decides nor was asked for")
		}
		if !slices.ContainsFunc(table.Columns, func(c column) bool { return c.Name == "holdout "+o.Measure() }) {
			t.Errorf("the first table lacks the %s", o.Measure())
		}
	}
}

// Runs that differ in many keys are tables that fit in a window, one below the other: the measures that decide are in the first, and each
// setting in one of them. Columns are named by the last parts of keys below what they begin with.
func TestTableOfManySettings(t *testing.T) {
	for n, parts := range map[int]int{8: 1, 20: 3, 40: 4} {
		var runs []Run
		for i := range 3 {
			r := made(fmt.Sprint("version ", i+1), schemas.Ridge(0.1), 2)
			for key := range n {
				r.Settings = append(r.Settings, Setting{fmt.Sprintf("stages.%d.features.setting_%d", key/4, key), fmt.Sprint(0.001 * float64(i+1))})
			}
			if n > 8 {
				r.Settings[n-1].Value = strings.Repeat("long", i+20)
			}
			test := r.Report.Splits["test"]
			test.Error, test.Loss = 50-float64(i), 0.3+0.01*float64(i)
			r.Report.Splits["test"] = test
			runs = append(runs, r)
		}
		table, _ := tablesOf(runs, Order{})
		if len(table.Parts) != parts {
			t.Errorf("%d keys are %d tables, expected %d", n, len(table.Parts), parts)
		}
		seen := map[string]int{}
		for k, part := range table.Parts {
			pixels := 0
			for at, c := range part.Columns {
				seen[c.Name]++
				pixels += table.width(slices.Index(table.Columns, c))
				for i, row := range part.Rows {
					if len(row.Cells) != len(part.Columns) || row.Cells[at].column != c || row.Title != table.Rows[i].Title ||
						row.Best != table.Rows[i].Best {
						t.Errorf("%d keys, table %d: the row %+v of the column %s", n, k, row, c.Name)
					}
				}
			}
			if pixels > tableWidth {
				t.Errorf("%d keys: table %d is %d pixels wide", n, k, pixels)
			}
			if decides := slices.ContainsFunc(part.Columns, func(c column) bool { return c.Name == "test error" }); decides != (k == 0) {
				t.Errorf("%d keys: whether table %d has the error is %v", n, k, decides)
			}
		}
		if len(seen) != len(table.Columns) || len(seen) <= n {
			t.Errorf("%d columns are shown of %d", len(seen), len(table.Columns))
		}
		first := table.Parts[0]
		if c := first.Columns[5]; c.Leaf() != "setting_5" || c.Prefix() != "stages.1.features" || first.Groups[0] != (group{"stages.0.features", 4}) ||
			first.Groups[len(first.Groups)-1].Prefix != "" {
			t.Errorf("column %+v, groups %+v", c, first.Groups)
		}
	}
}

// The measures of one run are a table with a column for each split; what is of no split is beside it.
func TestMeasuresBySplit(t *testing.T) {
	of, rows, others := bySplit([]Row{{"state", []string{"done"}}, {"train rows", []string{"8"}}, {"test rows", []string{"2"}},
		{"train error", []string{"1 %"}}, {"test log loss", []string{"0.5"}}, {"seconds", []string{"3"}}})
	want := []Row{{"rows", []string{"8", "2"}}, {"error", []string{"1 %", None}}, {"log loss", []string{None, "0.5"}}}
	if !slices.Equal(of, []string{"train", "test"}) || !reflect.DeepEqual(rows, want) || len(others) != 2 {
		t.Errorf("%v, %v, %v", of, rows, others)
	}
}
