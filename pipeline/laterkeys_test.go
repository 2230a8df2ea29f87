package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// Rows find outcomes whose keys have another encoding, in whatever partition. If most outcomes find none, no version is offered, and both
// keys are shown.
func TestKeysOfOutcomes(t *testing.T) {
	long(t)
	text := func(n int) []byte { return fmt.Append(nil, 1000+n) }
	long := func(n int) []byte { return []byte{0, 0, 0, 0, 0, 0, byte((1000 + n) >> 8), byte(1000 + n)} }
	for name, test := range map[string]struct {
		row, outcome func(n int) []byte
		late         time.Duration // of outcomes, beside their own time
		alone, come  int64         // outcomes without a row, and those that come too late
	}{
		"JSON":    {text, func(n int) []byte { return fmt.Appendf(nil, `"%d"`, 1000+n) }, 0, 0, 0},
		"Avro":    {text, func(n int) []byte { return fmt.Appendf([]byte{0, 0, 0, 0, 7, 8}, "%d", 1000+n) }, 0, 0, 0},
		"long":    {long, text, 0, 0, 0},
		"spelt":   {text, func(n int) []byte { return fmt.Appendf(nil, "id %d", 1000+n) }, 0, 200, 0},
		"mixed":   {text, func(n int) []byte { return fmt.Appendf(nil, []string{"%d", "K%d"}[n/2%2], 1000+n) }, 0, 100, 0},
		"seconds": {text, text, -1000 * time.Hour, 200, 0},
		"late":    {text, text, 0, 0, 65},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, 2, 2)
			job.Examples.Targets, job.Examples.Outcome.Label, job.Examples.Outcome.Absent = []string{"price"}, "", []string{"0"}
			job.Retrain = topics.DefaultRetrain()
			begin := time.Now().Add(-time.Hour)
			var records []*kgo.Record
			for i := range 400 {
				at := begin.Add(time.Duration(i) * time.Second)
				records = append(records, &kgo.Record{Topic: views, Partition: int32(i % 2), Key: test.row(i), Value: fmt.Appendf(nil, `{"x": %d, "n": %d}`, i%2, i), Timestamp: at})
				if i%2 == 1 {
					partition := int32(1)
					if slices.Contains([]string{"JSON", "Avro", "long"}, name) { // another hash of other bytes
						partition = int32(i / 2 % 2)
					}
					records = append(records, &kgo.Record{Topic: buys, Partition: partition, Key: test.outcome(i), Value: []byte(`{"price": 2}`), Timestamp: at.Add(time.Second + test.late)})
				}
			}
			for p := range int32(2) {
				tick := kgo.Record{Topic: buys, Partition: p, Key: []byte("tick"), Timestamp: begin.Add(time.Hour)}
				records = append(records, &tick)
				if test.come > 0 {
					early := tick
					early.Timestamp = begin.Add(200 * time.Second)
					records = slices.Insert(records, 0, &early)
				}
			}
			noError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			report, rec := retrainToEnd(t, log, job)
			last := report.Updates[len(report.Updates)-1]
			if o := last.Outcomes; o == nil || o.Rows != 400 || o.Outcomes != 200 || o.Alone != test.alone || o.Late != test.come ||
				o.Absent != 200+test.alone+test.come ||
				last.Offered != (2*test.alone <= 200) {
				t.Fatalf("offered %v with %+v, expected %d outcomes without a row", last.Offered, o, test.alone)
			}
			joined := eventsOf[event.Joined](rec)
			if c := joined[len(joined)-1].Counts; c.Outcomes != 200 || c.Alone() != test.alone {
				t.Errorf("ingest has counted %+v", c)
			} else if text := schemas.JoinText(c); test.come > 0 && !strings.Contains(text, "65 after their row was decided: messages are out of order by up to 3m18s, and examples.outcome.grace: 4m0s") {
				t.Errorf("the disorder is not shown: %s", text)
			}
			said := slices.DeleteFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return !strings.Contains(n.Text, "have no row") })
			if len(said) != min(1, int(test.alone)) || len(said) > 0 && strings.Count(said[0].Text, ", read as ") != 2 {
				t.Errorf("%d outcomes have no row, and the notices are %q", test.alone, said)
			}
			if why := last.Outcomes.Why(); !last.Offered && !strings.Contains(why, `its key has the bytes 31 33 39 39, read as "1399"`) {
				t.Errorf("the keys are not shown: %s", why)
			}
		})
	}
}
