package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// Rows of a topic are as old as their messages, whenever they are ingested, also for another pipeline that reads the examples: a window
// of time has those of the newest messages alone, and none that are 40 days old.
func TestWindowOfTimeOfATopic(t *testing.T) {
	long(t)
	const days, aDay = 40, 40
	for name, test := range map[string]struct {
		late  int // one message of so many is five days late; 0: none
		later bool
	}{"in order": {}, "out of order": {late: 10}, "later labels": {later: true}} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, 2, 2)
			if !test.later {
				job.Examples.Outcome, job.Examples.Label = ingest.Defaults().Outcome, "kind"
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows, job.Retrain.Window.Time, job.Examples.BatchRows = aDay, 24*time.Hour, 4096
			begin := time.Now().Add(-days * 24 * time.Hour)
			var records []*kgo.Record
			for i := range days * aDay {
				at, kind := begin.Add(time.Duration(i)*24*time.Hour/aDay), []string{"book", "film"}[i%2]
				if test.late > 0 && i%test.late == 1 {
					at = at.Add(-5 * 24 * time.Hour)
				}
				key := fmt.Appendf(nil, "view-%d", i)
				records = append(records,
					&kgo.Record{Topic: views, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"x": %d, "n": %d, "kind": %q}`, i%2, i, kind), Timestamp: at},
					&kgo.Record{Topic: buys, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"kind": %q}`, kind), Timestamp: at.Add(time.Second)})
			}
			noError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			jobs := []topics.Job{job}
			if !test.later { // its examples are those of another pipeline too
				reader := job
				reader.Name, reader.Examples = "reader", ingest.Defaults()
				reader.Examples.Topic, reader.Examples.Holdout = job.Name+".examples", job.Examples.Holdout
				jobs = append(jobs, reader)
			}
			for _, job := range jobs {
				report, _ := retrainToEnd(t, log, job)
				last := report.Updates[len(report.Updates)-1]
				if report.Rows != days*aDay || last.WindowRows > 3*aDay || last.Until < time.Now().Add(-24*time.Hour).UnixMilli() {
					t.Errorf("%s: %d of %d rows are learnt, and the last window has %d of %d a day until %v", job.Name, report.Rows, days*aDay,
						last.WindowRows, aDay, time.UnixMilli(last.Until))
				}
			}
		})
	}
}
