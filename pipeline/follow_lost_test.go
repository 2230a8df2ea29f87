package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// A column that rows had, and that most new rows lack, as a producer has renamed it, is named. Its rows go to quarantine,
// and change no version, unless the column is optional. Rows that lack a column now and then count, as they always have.
func TestColumnsThatMostNewRowsLack(t *testing.T) {
	long(t)
	renamed := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"Length": %v, "Width": %v, "colour": "r", "kind": %q}`, length, width, kind)
	}
	one := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"Length": %v, "width": %v, "colour": "r", "kind": %q}`, length, width, kind)
	}
	null := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": null, "colour": "r", "kind": %q}`, length, kind)
	}
	word := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": %v, "kind": %q}`, length, width, kind)
	}
	good := func(i int, length, width float64, kind string) string {
		return fmt.Sprintf(`{"length": %v, "width": %v, "colour": %q, "kind": %q}`, length, width, string('r'+rune(i%2)), kind)
	}
	sometimes := func(i int, length, width float64, kind string) string {
		if i%3 > 0 {
			return null(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	mixed := func(i int, length, width float64, kind string) string { // two of three producers have the new release
		if i%3 > 0 {
			return renamed(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	few := func(i int, length, width float64, kind string) string { // one of four
		if i%4 == 0 {
			return one(i, length, width, kind)
		}
		return good(i, length, width, kind)
	}
	type rows = func(i int, length, width float64, kind string) string
	for name, test := range map[string]struct {
		before, after rows
		optional      []string
		each          int // number of messages after which they are ingested; 0: all at once
		lost          string
		bad           int
		all           bool // no rows are held out
		mixed         bool // the word is hashed
		text          bool // the word is a text
	}{
		"all renamed":            {before: good, after: renamed, lost: "length width", bad: 300},
		"one":                    {before: good, after: one, lost: "length", bad: 300},
		"null":                   {before: good, after: null, lost: "width", bad: 300},
		"words":                  {before: good, after: word, lost: "colour", bad: 300},
		"as they come":           {before: good, after: renamed, each: 50, lost: "length width", bad: 300},
		"two of three producers": {before: good, after: mixed, lost: "length width", bad: 200},
		"one of four producers":  {before: good, after: few},
		"always now and then":    {before: sometimes, after: sometimes},
		"always":                 {before: null, after: null},
		"optional":               {before: good, after: one, optional: []string{"length"}, lost: "length"},
		"optional, as they come": {before: good, after: one, each: 50, optional: []string{"length"}, lost: "length"},
		"optional, no gate":      {before: good, after: one, optional: []string{"length"}, lost: "length", all: true},
		"hashed words":           {before: good, after: word, lost: "colour", bad: 300, mixed: true},
		"texts":                  {before: good, after: word, lost: "colour", bad: 300, text: true},
		"mixed":                  {before: good, after: renamed, lost: "length width", bad: 300, mixed: true},
		"mixed, as they come":    {before: good, after: one, each: 50, lost: "length", bad: 300, mixed: true},
		"optional, another":      {before: good, after: renamed, optional: []string{"length"}, lost: "length width", bad: 300},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 0, 5))
			job.Stages[0].Features.Kind = "columns"
			o := &job.Examples
			o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "sizes", "json", 1, 16
			o.Label, o.Columns.Use, o.Categorical = "kind", []string{"length", "width", "colour"}, []string{"colour"}
			o.Missing, o.Holdout = layout.Missing{Mode: layout.MissingMean, Columns: test.optional}, 0.2
			if test.all {
				o.Holdout = 0
			}
			if test.text {
				o.Text, o.Categorical, o.Columns.Use, o.Words.Columns = "colour", nil, []string{"length", "width"}, 16
			}
			if test.mixed {
				o.Hash = layout.Hash{Columns: 64}
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows = 100
			noError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 1}))
			random, rec, report := rand.New(rand.NewPCG(1, 2)), &eventRecorder{}, &Retraining{}
			lost, bad, drifts, lacking := map[string]int64{}, map[string]bool{}, 0, 0
			retrain := func() {
				t.Helper()
				var err error
				if report, err = Retrain(t.Context(), log, openBLAS(t), job, true, rec); err != nil {
					t.Fatal(err)
				}
				for column, rows := range report.LostColumns {
					lost[column] += rows
				}
				for _, u := range report.Updates {
					if u.Drift {
						drifts++
					}
					if len(u.Lacking) > 0 {
						lacking++
					}
					if test.all != u.Unseen && len(u.Lacking) > 0 || u.Unseen && u.Offered || len(u.Lacking) > 0 && u.Offered && u.Gate == nil {
						t.Errorf("version %d lacks %q: unseen %v, offered %v, gate %v", u.Version, u.Lacking, u.Unseen, u.Offered, u.Gate)
					}
				}
			}
			for i := range 700 {
				write, kind := test.before, i%2
				if i >= 300 && i < 600 {
					write = test.after
				}
				value := write(i, float64(kind)*2+random.Float64(), random.Float64(), string('x'+rune(kind)))
				must(log.Append(t.Context(), o.FromTopic, 0, kafkalog.Message{Value: []byte(value)}))(t)
				if test.each > 0 && i >= 300 && i%test.each == test.each-1 {
					retrain()
				}
			}
			retrain()
			var names []string
			for _, name := range []string{"length", "width", "colour"} {
				if rows := lost[name]; rows > 0 {
					if names = append(names, name); rows != int64(test.bad) && !slices.Contains(test.optional, name) {
						t.Errorf("%d rows lack the column %s, expected %d", rows, name, test.bad)
					}
				}
			}
			if got := strings.Join(names, " "); got != test.lost || (got != "") != slices.ContainsFunc(eventsOf[event.ColumnLost](rec),
				func(e event.ColumnLost) bool { return e.Rows > 0 }) {
				t.Errorf("lost are the columns %q, expected %q", got, test.lost)
			}
			for _, m := range readTopic(t, log, job.Name+".quarantine") {
				q, err := schemas.QuarantinedOf(protocol.FromKafka(m))
				bad[string(m.Key)] = true // messages after the last usable one are read again by the next process
				if err != nil || !strings.Contains(q.Reason, "no value in column") ||
					strings.Contains(string(q.Value), "Length") && !strings.Contains(q.Reason, `the message has "`) {
					t.Errorf("in quarantine is %+v, %v", q, err)
				}
			}
			if len(test.optional) > 0 && test.bad == 0 && lacking == 0 {
				t.Error("no version reports the column")
			}
			if len(bad) != test.bad || drifts > 0 && test.lost != "" {
				t.Errorf("%d messages are in quarantine, expected %d; %d alarms", len(bad), test.bad, drifts)
			}
		})
	}
}
