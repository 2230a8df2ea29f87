package compare

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// made returns a run of equal stages with a ridge, that has made a version.
func made(title string, ridge schemas.Ridge, stages int) Run {
	half, third := 50.0, 0.3
	plan := &schemas.Plan{Name: "p", Seed: 1, Submission: title, Spans: schemas.Spans{{Partition: 0, From: 0, To: 9}}, Sources: []schemas.SourceSeal{{ID: strings.Repeat("a", 64)}}}
	report := &schemas.Report{Labels: []string{"<b>", "b"}, Seconds: 1.5, WeightsDigest: "0123456789abcdef", Splits: map[string]schemas.SplitReport{
		"train": {Rows: 80, Error: 10, Loss: 0.2},
		"test":  {Rows: 20, Error: 50, Loss: 0.3, Confusion: [][]int64{{7, 3}, {7, 3}}, Reliability: []schemas.ReliabilityBin{{Weight: 20, Confidence: 0.75, Accuracy: 0.5}}},
	}}
	for t := range stages {
		plan.Stages = append(plan.Stages, schemas.Stage{Link: "softmax", Ridge: ridge, Passes: 12})
		report.Stages = append(report.Stages, schemas.StageReport{Stage: t, Passes: 2, TrainError: 10, TrainLoss: 0.2, TestError: &half, TestLoss: &third, ByPass: []schemas.PassReport{
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
	rows := Measures([]Run{made("a", 1, 1), {Title: "b", State: "failed"}})
	find := func(name string) []string {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return rows[i].Values
	}
	for name, want := range map[string][]string{
		"state": {"done", "failed"}, "test error": {"50.00 %", None}, "train rows": {"80", None}, "passes": {"2", None}, "weights digest": {"0123456789ab", None}, "holdout error": nil,
	} {
		if got := find(name); !slices.Equal(got, want) {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
}

// The page asks for nothing: no address, no script. Its diagrams have titles and its tables captions, and texts of others are escaped.
func TestPage(t *testing.T) {
	var page bytes.Buffer
	if err := WritePage(&page, []Run{made("a", 0.001, 2), made("b", 0.25, 3), {Title: "c", State: "failed"}}); err != nil {
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
	if count["svg"] != 3+8+1 || count["polyline"] != 2*9+1 { // three keys, eight diagrams by stage and pass, one of reliability with its diagonal
		t.Errorf("%d drawings with %d lines, expected 12 with 19", count["svg"], count["polyline"])
	}
	// The test rows of each run in two classes: 7 of 10 right, and 3 of 10.
	if got := len(regexp.MustCompile(`<td class="right">[73]</td>`).FindAllString(text, -1)); got != 4 {
		t.Errorf("%d cells of right predictions, expected 4", got)
	}
}

// All points are within the drawing, whatever the values are.
func TestChartsFit(t *testing.T) {
	for _, ys := range [][]float64{{0}, {0, 0}, {1e-9, 5}, {1e300, 1e-300}, {3, 3, 3}, {0, 100}} {
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
	if _, ok := newChart("id", "title", "x", "y", []values{{}}, false); ok {
		t.Error("a diagram without values")
	}
	if got := fmt.Sprint(at(10, 20, 0.25)); got != "12.5" {
		t.Errorf("a quarter of the way from 10 to 20 is %s", got)
	}
}
