package screen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/explain"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/page"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// recordStage records the events of a run up to the end of its first stage.
func recordStage(record func(event.Event), clock *time.Time) {
	record(event.Trying{Progressed: event.Progressed{Stage: 2}})
	record(event.Began{Run: "abc", Stages: []schemas.Stage{{Link: "softmax", Passes: 5}, {Link: "softmax", Passes: 5}}})
	record(event.Surveyed{Rows: map[examples.Split]int64{examples.Train: 1000}, Features: 784, Inputs: 50, Classes: 10})
	for rows := range int64(5) {
		record(event.Progressed{Stage: 0, Visit: int(rows), Rows: rows * 25, Of: 100})
		*clock = clock.Add(60 * time.Millisecond)
	}
	record(event.StageEnded{Stages: 2, StageReport: schemas.StageReport{Link: "softmax", Passes: 12, Seconds: 1.25,
		Measured: schemas.Measured{TrainError: 1.5, TrainLoss: 0.05, TestError: new(2.25)}}})
}

func TestProgressWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	var clock time.Time
	recordStage(NewProgress(&out, func() time.Time { return clock }).Record, &clock)
	want := "run abc\n" +
		"1,000 train rows; 784 features → 50 components; 10 classes\n" +
		"                                   error                    loss\n" +
		" stage link       passes   train holdout    test   train holdout    test seconds\n" +
		"   1/2 softmax        12  1.50 %       -  2.25 %  0.0500       -       -     1.2\n"
	assert.True(t, out.String() == want, "got\n%s\nexpected\n%s", out.String(), want)
}

// The bar is drawn every 100 ms at most, never fills a line, and is erased before a line of text.
func TestBar(t *testing.T) {
	var drawn bytes.Buffer
	var clock time.Time
	p := NewProgress(io.Discard, func() time.Time { return clock })
	p.bar.w, p.bar.width = &drawn, func() int { return 48 }
	recordStage(p.Record, &clock)
	frames := strings.Split(drawn.String(), "\r")
	assert.Need(t, len(frames) == 7, "frames %q", frames) // nothing, trying, erased, 0 %, 25 %, 50 %, erased
	for _, frame := range frames {
		assert.True(t, len([]rune(strings.TrimSuffix(frame, "\x1b[K"))) < 48, "it fills the line: %q", frame)
	}
	assert.Equal(t, frames[1], "stages: trying candidates  stage 3\x1b[K", "")
	assert.True(t, frames[4] == "stage 1/2    ██████░░░░░░░░░░░░░░░░░░  25 %\x1b[K" && frames[6] == "\x1b[K", "frames %q", frames)
}

// Who waits for rows says so once, and on a terminal keeps saying how many there are.
func TestProgressOfExpectations(t *testing.T) {
	until := time.Date(2026, 11, 28, 16, 5, 30, 0, time.Local)
	record := func(p *Progress) {
		p.Record(event.Expecting{Of: 10000, After: 10 * time.Minute})
		p.Record(event.Expecting{Rows: 251, Of: 10000, After: 10 * time.Minute, Until: until, Again: true})
		p.Record(event.Ingested{Files: []string{"topic clicks"}, Rows: 260})
		p.Record(event.Expecting{Rows: 260, Of: 10000, After: 10 * time.Minute, Until: until, Again: true})
		p.Record(event.Retrained{RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Offered: true}})
		p.Record(event.Expecting{Of: 10000})
	}
	var out, drawn bytes.Buffer
	record(NewProgress(&out, time.Now))
	text := "waiting for 10,000 rows (0 so far), or 10m after the first; --until end learns what is there\n"
	assert.True(t, strings.HasPrefix(out.String(), text) && strings.Count(out.String(), "waiting") == 1, "in a log: %s", &out)
	p := NewProgress(io.Discard, time.Now)
	p.bar.w, p.bar.width = &drawn, func() int { return 80 }
	record(p)
	var frames []string
	for _, frame := range strings.Split(drawn.String(), "\r") {
		if frame = strings.TrimSuffix(frame, "\x1b[K"); strings.HasPrefix(frame, "waiting") {
			frames = append(frames, frame)
		}
	}
	want := []string{"waiting for 10,000 rows (0 so far), or 10m after the first", "waiting for 10,000 rows (251 so far), or until 16:05:30",
		"waiting for 10,000 rows (260 so far), or until 16:05:30", "waiting for 10,000 rows (0 so far)"}
	assert.Equal(t, frames, want, "on a terminal")
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", 30 * time.Second: "30s", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + 5*time.Second: "1h0m5s", 500 * time.Millisecond: "500ms", 10 * time.Hour: "10h"} {
		assert.Equal(t, durationText(d), want, "%v", d)
	}
}

// The line after a wait says whether the operation succeeded.
func TestProgressOfWaits(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, time.Now)
	noLeader := errors.New("no leader")
	for _, e := range []event.Waiting{
		{What: "append to x[0]", Since: 2 * time.Second, Err: noLeader},
		{What: "append to x[0]", Since: 3 * time.Second, Over: true},
		{What: "append to x[1]", Since: 4 * time.Second, Err: noLeader, Over: true},
	} {
		p.Record(e)
	}
	want := "append to x[0]: waiting for 2s: no leader\n" +
		"append to x[0]: succeeded after 3s\n" +
		"append to x[1]: gave up after 4s\n"
	assert.True(t, out.String() == want, "got\n%s\nexpected\n%s", out.String(), want)
}

// What a run passes over is on the screen, a line for each reason that counts any message.
func TestProgressOfPassedOver(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, time.Now)
	all := coverage.PassedOver{}
	for i, r := range coverage.PassOverReasons() {
		all.Count(r.Reason, int64(i))
	}
	p.Record(event.Surveyed{Rows: map[examples.Split]int64{examples.Train: 5}, Features: 3, Inputs: 3, Classes: 2, PassedOver: all})
	p.Finish()
	assert.True(t, len(strings.Split(strings.TrimSpace(out.String()), "\n")) == len(coverage.PassOverReasons()) &&
		strings.Contains(out.String(), "passed over: 1 message from other files or an interrupted ingest\n"),
		"got\n%s\nexpected the rows, and a line for each reason but the first", out.String())
}

// What a followed run waits for, and who works on it, is on the screen.
func TestProgressOfFollowedRun(t *testing.T) {
	for want, e := range map[string]event.Followed{
		"it waits for runs a and b to end\n2 workers: x, y; 1 solver: z\n": {Behind: []string{"a",
			"b"}, Staff: event.Staff{Workers: []string{"x", "y"}, Solvers: []string{"z"}}},
		"it waits for visit 4 of stage 2 of 2\nthe process that runs the embedded broker works on it\n": {Stage: 1, Visit: 3,
			Staff: event.Staff{Embedded: true}},
		"no progress for 1m30s: the run waits for the survey\nno worker: start stagewise work -c FILE; 1 solver: z\n": {Stage: wire.Survey,
			Quiet: 90 * time.Second, Staff: event.Staff{Solvers: []string{"z"}}},
		"it is waiting to end: no visits remain\nthe processes that work on it are unknown: not allowed\n": {Stage: 2,
			Staff: event.Staff{Unknown: errors.New("not allowed")}},
	} {
		var out bytes.Buffer
		p := NewProgress(&out, time.Now)
		p.Record(event.Began{Run: "abc", Followed: true, Stages: make([]schemas.Stage, 2)})
		p.Record(e)
		assert.Equal(t, strings.TrimPrefix(out.String(), "run abc, on other processes\n"), want, "")
	}
}

// Who predicts for a topic sees how far that is.
func TestScoringBar(t *testing.T) {
	var drawn bytes.Buffer
	var clock time.Time
	p := NewProgress(io.Discard, func() time.Time { return clock })
	p.bar.w, p.bar.width = &drawn, func() int { return 60 }
	for _, e := range []event.Event{
		event.ScoringLag{Offsets: map[int]int64{0: 5, 1: 2}}, event.Scored{Messages: 4, Rows: 4000, Version: 3},
		event.ScoringLag{Offsets: map[int]int64{1: 1}},
	} {
		p.Record(e)
		clock = clock.Add(time.Second)
	}
	p.Finish()
	want := "\rscore  0 rows, 7 messages left\x1b[K\rscore  4,000 rows, version 3, 7 messages left\x1b[K\rscore  4,000 rows, " +
		"version 3, 1 message left\x1b[K\r\x1b[K"
	assert.Equal(t, drawn.String(), want, "")
}

// After an error a file has its old content, otherwise all of its new content. No other file is left in its folder.
func TestWriteIsAtomic(t *testing.T) {
	t.Chdir(t.TempDir())
	assert.NoError(t, os.WriteFile("old", []byte("old"), 0o644))
	assert.NoError(t, os.Symlink("old", "link"))
	half := func(w io.Writer) {
		_, err := w.Write([]byte("half"))
		assert.Fails(t, err, nil)
	}
	// A failed write leaves the file alone. A write through a link replaces what the link points to.
	err := Write("old", nil, func(w io.Writer) error { half(w); return os.ErrClosed })
	content, _ := os.ReadFile("old")
	assert.True(t, err != nil && string(content) == "old", "%q, error %v", content, err)
	assert.Fails(t, Write("link", nil, func(w io.Writer) error { half(w); return nil }), nil)
	content, _ = os.ReadFile("old")
	assert.True(t, string(content) == "half", "%q behind the link", content)
	files, _ := filepath.Glob("*")
	assert.Equal(t, len(files), 2, "files")
	assert.True(t, os.Geteuid() == 0 || CheckWritable("/model") != nil, "a user may write to /")
}

// The screen has a row for each version of a chain, with what an operator should know.
func TestProgressOfAChain(t *testing.T) {
	var screen bytes.Buffer
	p := NewProgress(&screen, time.Now)
	p.Record(event.Began{Run: "abc", Chained: true})
	e := 2.5
	p.Record(event.Retrained{Number: 1, RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Rows: 1000,
		WindowRows: 1000, Offered: true, Seconds: 2}})
	p.Record(event.Retrained{Number: 2, RetrainReport: schemas.RetrainReport{
		Version: 2, Kind: schemas.RunUpdate, Rows: 500, WindowRows: 1500, Drift: true, Seconds: 0.5, PrequentialError: &e, NoLabel: 2,
		Gate:      &schemas.GateReport{Weight: 50, Loss: 0.25, OfferedLoss: 0.125},
		MostlyBad: &coverage.BadMessages{Messages: 3, Of: 4, Partition: 1, Offset: 7, Reason: "damaged"},
	}})
	for _, want := range []string{
		" version           new rows       window  error before   holdout  seconds\n",
		"       1  full        1,000        1,000             -         -     2.00\n",
		"       2  update        500        1,500        2.50 %         -     0.50  the stream has changed  not offered: loss " +
			"0.25, offered version 0.125  most messages are unusable  2 rows without a label (null, empty or one of examples.missing_values)\n",
		"3 of 4 new messages can't be used; the first is partition 1, offset 7: damaged\n",
	} {
		assert.True(t, strings.Contains(screen.String(), want), "%s\nexpected %s", screen.String(), want)
	}
}

// Runs that do not fit on a terminal beside each other are below each other, with the same rows; long values are cut there, and nowhere
// else.
func TestRunsFitATerminal(t *testing.T) {
	var runs []page.Compared
	for i, errorOf := range []float64{3, 1, 2, 5, 4} {
		r := page.Compared{Title: "version " + string(rune('1'+i)), State: "done", Plan: &schemas.Plan{Name: strings.Repeat("p", 30+i)},
			Report: &schemas.Report{Splits: map[string]schemas.SplitReport{"test": {Rows: 10, Error: errorOf}}}}
		runs = append(runs, r)
	}
	runs = append(runs, page.Compared{Title: "run 0123456789ab", State: "failed"})
	ranked := rank(runs, page.Order{})
	want := []string{"3", "1", "2", "5", "4", "-"}
	assert.True(t, ranked.Name == "rank by error of the test rows" && slices.Equal(ranked.Values, want), "%+v, expected %v", ranked, want)
	rows, _ := comparison(runs, page.Order{})
	for _, columns := range []int{20, 80, 120, 0} {
		most := math.MaxInt
		if columns > 0 {
			most = maxValue
		}
		var all []int
		lists := beside(rows, columns, most)
		for _, list := range lists {
			all = append(all, list...)
			var text strings.Builder
			table := tableOf(rows, list, most)
			table.Write(&text)
			for line := range strings.Lines(text.String()) {
				width := utf8.RuneCountInString(strings.TrimRight(line, " \n"))
				assert.True(t, columns <= 0 || width <= columns || len(list) <= 1, "%d columns: %d in %q", columns, width, line)
			}
			whole := strings.Contains(text.String(), strings.Repeat("p", 30))
			assert.Equal(t, whole, columns == 0, "%d columns: whether a long value is whole", columns)
		}
		assert.True(t, slices.Equal(all, []int{0, 1, 2, 3, 4, 5}) && (columns == 0) == (len(lists) == 1), "%d columns: %v", columns, lists)
	}
}

// The last lines of a run say how good predictions are, of the rows that say most.
func TestConcludeTasks(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	numbers := map[string]statistics.Distances{"tax": {RMSE: 1.0725, R2: 0.9774}, "price": {RMSE: 4865.2, R2: 0.99801}}
	for want, splits := range map[string]map[string]schemas.SplitReport{
		"": {"train": {Rows: 9}},
		"test: price: RMSE 4865, R² 0.998; tax: RMSE 1.073, R² 0.977\n": {"test": {Targets: numbers},
			"train": {Targets: map[string]statistics.Distances{"tax": {}}}},
		"test: noise: RMSE 1.02, R² -0.031, no better than always predicting the mean\n": {
			"test": {Targets: map[string]statistics.Distances{"noise": {RMSE: 1.02, R2: -0.031}}}},
		"holdout: Hamming loss 0.008, micro-F1 0.989\n": {"holdout": {Hamming: of(0.0078), MicroF1: of(0.9888)}, "train": {}},
		"test: AUC 0.9127\n": {"test": classified([][]int64{{78, 2}, {2, 18}}, [2]float64{1, 1}, 0.91268),
			"train": classified([][]int64{{720, 0}, {9, 171}}, [2]float64{1, 1}, 0.99)},
	} {
		assert.Equal(t, concluded(splits), want, "")
	}
}

// An error is no better than that of always predicting the commonest class unless it is lower, by what rows in which exactly one of the two
// is right can show; ranks may be good all the same.
func TestConcludeAgainstTheMajority(t *testing.T) {
	even, few := [2]float64{1, 1}, ` rows are too few to tell`
	const useful, threshold = "; the AUC is clearly better than chance", ": set threshold, for example to best_f1"
	for name, c := range map[string]struct {
		confusion [][]int64
		weights   [2]float64 // of the rows of the first class, which is the commonest, and of the others
		auc       float64
		want      string
	}{
		"class weights make a class of few rows the commonest": {[][]int64{{20, 0}, {8, 32}}, [2]float64{20, 1}, 0.97, ""},
		"class weights, of which rows lose more than they win": {[][]int64{{950, 50}, {5, 15}}, [2]float64{1, 20}, 0.9, ""},
		"a rare class": {[][]int64{{582, 1}, {4, 3}}, even, 0.994,
			`error 0.85 % is not clearly better than that of always predicting "no", 1.19 %: 590` + few + useful},
		"a rare class, never predicted": {[][]int64{{990, 0}, {10, 0}}, even, 0.93,
			`error 1.00 % is no better than that of always predicting "no": 1.00 %` + useful + threshold},
		"few rows":        {[][]int64{{75, 5}, {12, 8}}, even, 0.55, `error 17.00 % is not clearly better than that of always predicting "no", 20.00 %: 100` + few},
		"many rows":       {[][]int64{{7500, 500}, {1200, 800}}, even, 0.55, ""},
		"few that differ": {[][]int64{{9990, 0}, {5, 5}}, even, 0.5, ""},
		"noise":           {[][]int64{{70, 10}, {11, 9}}, even, 0.52, `error 21.00 % is no better than that of always predicting "no": 20.00 %`},
		"one class only":  {[][]int64{{100, 0}, {0, 0}}, even, 0.5, `error 0.00 % is no better than that of always predicting "no": 0.00 %`},
	} {
		want := fmt.Sprintf("test: AUC %.4f\n", c.auc)
		if c.want != "" {
			want += "test " + c.want + "\n"
		}
		assert.Equal(t, concluded(map[string]schemas.SplitReport{"test": classified(c.confusion, c.weights, c.auc)}), want, "%s", name)
	}
}

// classified is the report of rows of two classes, of which the first is the commonest.
func classified(confusion [][]int64, weights [2]float64, auc float64) schemas.SplitReport {
	s := schemas.SplitReport{Confusion: confusion, ClassMeasures: statistics.ClassMeasures{AUC: &auc, F1: make([]float64, 2)}}
	var wrong, rare, all float64
	for i, row := range confusion {
		for j, n := range row {
			w := weights[i] * float64(n)
			s.Rows, all = s.Rows+n, all+w
			if i != j {
				wrong += w
			}
			rare += float64(i) * w
		}
	}
	s.Error, rare = 100*wrong/all, 100*rare/all
	rare = math.Nextafter(rare, 100) // as of the same sums in another order
	s.MajorityError = &rare
	return s
}

// concluded returns the last lines of a run about its splits.
func concluded(splits map[string]schemas.SplitReport) string {
	var out bytes.Buffer
	Conclude(&out, &schemas.Report{Name: "p", Version: 3, Stages: make([]schemas.StageReport, 1), TrainError: 2, Seconds: 1, Majority: "no",
		Labels: []string{"no", "yes"}, Splits: splits}, "", "")
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), "train error 2.00 %, 1.0 s\n"), "model: version 3 on the topic p.versions\n")
}

// Whatever a column is called, YAML reads the name back; a number of a column is a number.
func TestScalars(t *testing.T) {
	for _, text := range []string{"a", "a b", "a: b", "a #b", "# a", "- a", "[a]", "{a}", "'a'", `"a"`, `a\b`, "true", "No", "null", "~", "1.5", "1e3", ".5",
		"0x1", "12", "007", "2026-01-02", "a\tb", "a\nb", "ä ö", "日本", "*a", "&a", "!a", "%a", "@a", "`a`", "a,b", "../a.csv", "a ", " a", "",
		".", "..", "=", "<<", "|", ">", "?", ":", "nan", ".inf", "\u0085", "\u007f", "y"} {
		var read struct{ A, B any }
		if err := yaml.Unmarshal([]byte("a: "+scalar(text)+"  # why\nb: ["+scalar(text)+", x]\n"), &read); err != nil {
			t.Errorf("%q as %s: %v", text, scalar(text), err)
			continue
		}
		got, isText := read.A.(string)
		if n, isNumber := read.A.(int); isNumber && text == "12" {
			got, isText = strconv.Itoa(n), true
		}
		list, ok := read.B.([]any)
		assert.True(t, isText && got == text && ok && len(list) == 2, "%q as %s is read as %v and %v", text, scalar(text), read.A, read.B)
	}
}

// The name of a pipeline is one that topics may have, and says which file it is of.
func TestName(t *testing.T) {
	for file, want := range map[string]string{"a/flowers.csv": "flowers", "x.csv.gz": "x", "my table (2).parquet": "my-table-2", "..": "table",
		"日本.csv": "table", "a.b.jsonl": "a.b", "folder/": "folder", strings.Repeat("a", 300) + ".csv": strings.Repeat("a", 60)} {
		assert.Equal(t, DraftName(file), want, "%s", file)
	}
}

// A comment stays on its line, whatever a column has in it.
func TestComments(t *testing.T) {
	text := "a: 1  " + comment("one\ntwo: 3") + "\n" + comment("three\nfour: 5")
	var read map[string]any
	err := yaml.Unmarshal([]byte(text), &read)
	assert.True(t, err == nil && len(read) == 1, "%v, %v of\n%s", read, err, text)
}

// Labels are in the order of the model, also if rounding makes the probability of a later one change more, and the labels whose probability
// changes little are the last ones.
func TestCurveOrdersLabels(t *testing.T) {
	for _, labels := range [][]string{{"no", "yes"}, {"constant", "a", "b", "c", "d"}} {
		first, last := make([]float64, len(labels)), make([]float64, len(labels))
		for k := range labels {
			last[k] = 0.5 + 1e-9*float64(k)
		}
		want := labels
		if len(labels) > maxColumns {
			last[0] = 0
			want = append(slices.Clone(labels[1:]), labels[0])
		}
		c := explain.Curve{Name: "column", Points: []explain.CurvePoint{{Value: "1", Mean: first}, {Value: "2", Mean: last}}}
		assert.Equal(t, curve(&explain.Report{Labels: labels}, &c).Head[1:], want, "labels")
	}
}

// The formula has the processor time of measured runs within a quarter; docs/scaling.md says how they were measured.
func TestCostOfMeasuredRuns(t *testing.T) {
	const start = 0.23 // seconds of a run without rows
	for _, run := range []struct {
		rows, width, pca, classes int
		stages, size, passes      int // passes of all stages
		gramRows                  string
		seconds                   float64
	}{
		{10_000, 784, 50, 10, 1, 256, 2, solve.GramAuto, 0.41},
		{10_000, 784, 50, 10, 4, 1024, 16, solve.GramAuto, 1.20},
		{60_000, 784, 50, 10, 2, 256, 8, solve.GramAuto, 1.40},
		{60_000, 784, 50, 10, 1, 1024, 4, solve.GramAuto, 1.62},
		{60_000, 784, 50, 10, 4, 1024, 16, solve.GramAuto, 2.75},
		{60_000, 784, 50, 10, 4, 1024, 30, solve.GramAuto, 3.18},
		{60_000, 784, 50, 10, 2, 2048, 8, solve.GramAuto, 3.67},
		{60_000, 784, 200, 10, 4, 1024, 16, solve.GramAuto, 3.82},
		{60_000, 784, 50, 10, 2, 1024, 8, solve.GramAll, 3.15},
		{60_000, 784, 50, 10, 1, 2048, 4, solve.GramAll, 5.54},
		{60_000, 784, 50, 10, 8, 512, 32, solve.GramAuto, 2.65},
		{60_000, 784, 100, 10, 8, 1024, 32, solve.GramAuto, 5.00},
		{60_000, 49, 0, 10, 1, 1024, 2, solve.GramAuto, 0.73},
		{60_000, 49, 0, 10, 2, 1024, 4, solve.GramAuto, 1.04},
		{60_000, 49, 0, 10, 2, 1024, 20, solve.GramAuto, 1.59},
		{60_000, 49, 0, 100, 1, 1024, 2, solve.GramAuto, 1.33},
		{60_000, 49, 0, 100, 2, 1024, 4, solve.GramAuto, 2.16},
		{60_000, 49, 0, 100, 2, 1024, 20, solve.GramAuto, 5.91},
	} {
		var list []schemas.Stage
		var columns []int
		for i := range run.stages {
			s := schemas.Stage{Features: stages.Defaults(), Link: link.Softmax, Passes: run.passes / run.stages, Method: solve.MethodAuto,
				GramRows: run.gramRows}
			if s.Features.Size = run.size; i < run.passes%run.stages {
				s.Passes++
			}
			list, columns = append(list, s), append(columns, run.size)
		}
		inputs := run.width
		if run.pca > 0 {
			inputs = run.pca
		}
		got := start + secondsOf(int64(run.rows), list, columns, run.width, inputs, run.pca > 0, run.classes)
		if got < 0.75*run.seconds || got > 1.25*run.seconds {
			t.Errorf("%+v: the formula has %.2f s", run, got)
		} else {
			t.Logf("%.2f of %.2f s", got, run.seconds)
		}
	}
}
