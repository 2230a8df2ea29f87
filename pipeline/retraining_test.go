package pipeline

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// The report of a chain says of each run which messages it added, and when they were written. Its curve and its
// confusion matrix have the rows and the errors of all updates.
func TestReportOfAChain(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	r, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	noError(t, err)
	var spans coverage.Spans
	rows, wrong := int64(0), 0.0
	for _, u := range r.Updates {
		if spans, err = spans.Union(u.Spans); err != nil {
			t.Fatalf("version %d has %v again: %v", u.Version, u.Spans, err)
		}
		if u.Rows > 0 && (u.From <= 0 || u.Until < u.From || len(u.Spans) == 0) || u.Rows == 0 && u.From != 0 {
			t.Errorf("version %d: %d rows of %v, written from %d to %d", u.Version, u.Rows, u.Spans, u.From, u.Until)
		}
		if u.PrequentialError == nil {
			continue
		}
		rows += u.Rows
		wrong += float64(u.Rows) * *u.PrequentialError / 100
		if *u.PrequentialLogLoss <= 0 || *u.PrequentialBrier <= 0 || *u.PrequentialECE <= 0 || u.Curve != nil {
			t.Errorf("%+v", *u)
		}
	}
	p := topics.OpenForRuns(log, job, nil)
	all := must(p.Log.Spans(t.Context(), p.Topics.Examples))(t)
	if hulls := spans.Hulls(); !reflect.DeepEqual(hulls, coverage.Spans(all)) {
		t.Errorf("runs added %v of %v", hulls, all)
	}
	check := func(what string, gotRows int64, gotWrong float64) {
		t.Helper()
		if gotRows != rows || math.Abs(gotWrong-wrong) > 1e-6 {
			t.Errorf("%s: %d rows, %g of them wrong, expected %d and %g", what, gotRows, gotWrong, rows, wrong)
		}
	}
	inCurve, wrongInCurve := int64(0), 0.0
	for _, b := range r.Curve {
		inCurve += b.Rows
		wrongInCurve += b.Weight * b.Error / 100
	}
	check("curve", inCurve, wrongInCurve)
	inMatrix, wrongInMatrix := int64(0), 0.0
	for i, line := range r.Confusion {
		for j, n := range line {
			if inMatrix += n; i != j {
				wrongInMatrix += float64(n)
			}
		}
	}
	check("confusion", inMatrix, wrongInMatrix)
}

// The confusion matrix of a chain has room for classes that come later.
func TestConfusionOfMoreClasses(t *testing.T) {
	r := &Retraining{}
	r.addConfusion([]string{"b", "d"}, [][]int64{{1, 2}, {3, 4}})
	r.addConfusion([]string{"b", "d"}, nil) // too many classes for a matrix
	r.addConfusion([]string{"a", "b", "c", "d"}, [][]int64{{1, 0, 0, 5}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}})
	if want := [][]int64{{1, 0, 0, 5}, {0, 2, 0, 2}, {0, 0, 1, 0}, {0, 3, 0, 5}}; !reflect.DeepEqual(r.Confusion, want) || len(r.Labels) != 4 {
		t.Errorf("%v of %q, expected %v", r.Confusion, r.Labels, want)
	}
}

// A full run reads rows of labels that are no class again. Reports count them once.
func TestReportsCountRowsOfNoClassOnce(t *testing.T) {
	data := rings(800, 4, 3, 1)
	slices.Sort(data.labels)
	unknown := int64(0)
	for i := range data.labels { // it comes last, when the classes are known
		if data.labels[i] == "ring2" {
			unknown++
		}
	}
	job := newJob(t, data, table{}, rffStage("softmax", 24, 1))
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.OnNewClass, job.Retrain.Full = 128, topics.NewClassQuarantine, topics.FullOptions{Every: 1}
	report := must(Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{}))(t)
	got, full := int64(0), 0
	for _, u := range report.Updates {
		if got += u.UnknownRows; u.Kind == schemas.RunFull {
			full++
		}
	}
	if got != unknown || unknown == 0 || full < 3 {
		t.Errorf("%d versions, %d of them full, say that %d rows have a label that is no class, expected %d", len(report.Updates), full,
			got, unknown)
	}
}
