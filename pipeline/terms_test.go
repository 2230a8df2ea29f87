package pipeline

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// In a full run that merges increments, workers send the terms of each group of a stage, summed over partitions, in separate
// records. The next version is the same as with the terms of each increment.
func TestWorkersMergeTheTermsOfAFullRun(t *testing.T) {
	const every, partitions, stages, columns, classes = 20, 2, 2, 16, 3
	list := []schemas.Stage{rffStage("softmax", columns, 3), rffStage("softmax", columns, 3)}
	job := newJob(t, rings((every+2)*40, 4, classes, 1), table{}, list...)
	job.Examples.BatchRows, job.Examples.Partitions = 20, partitions
	job.Topics, job.Retrain = topics.DefaultTopics(), topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full = 40, 0, topics.FullOptions{Every: every}
	var scores [2]*model.Model
	for i, test := range []struct {
		state option.Bytes
		sent  int // terms of a stage and a share
	}{{4 << 30, every + 1}, {1, 2}} {
		job.Topics.State = test.state
		log, sent, full := openEmbedded(t), map[wire.Identity]int{}, 0
		rec := &eventRecorder{}
		rec.on = func(e event.Event) {
			r, ok := e.(event.Retrained)
			if !ok || r.Kind != schemas.RunFull || r.Number == 1 {
				return
			}
			full++
			version := must(topics.Open(log, job.Name, nil).Model(t.Context(), "latest"))(t)
			collector := wire.Collector[float64]{}
			for _, k := range readTopic(t, log, job.Name+".statistics") {
				m := protocol.FromKafka(k)
				if m.Kind() != statistics.KindIncrement && m.Kind() != statistics.KindSeal {
					continue
				}
				if id, err := wire.IdentityOf(m); err != nil || id.Run != version.Manifest.Run {
					continue
				}
				r, err := collector.Add(m, memory.DefaultAllocator)
				if err != nil || r == nil {
					t.Fatal(r, err)
				}
				terms, any := r.Tensors.Find(statistics.FieldTerms)
				if any != (m.Kind() == statistics.KindIncrement) {
					t.Errorf("%v has terms: %v", r.Identity, any)
				}
				if any {
					sent[r.Identity] = len(terms.Data)
				}
			}
		}
		must(Retrain(t.Context(), log, openBLAS(t), job, true, rec))(t)
		if full != 1 || len(sent) != test.sent*stages*partitions {
			t.Errorf("topics.state %d: %d full runs, the terms of %d; expected 1 and %d", test.state, full, len(sent), test.sent*stages*partitions)
		}
		for id, values := range sent {
			if want := 2 * (columns + 1) * classes; values != want && values != want-2*classes {
				t.Errorf("%v has %d values, expected %d", id, values, want)
			}
		}
		var err error
		if scores[i], err = topics.Open(log, job.Name, nil).Model(t.Context(), "latest"); err != nil {
			t.Fatal(err)
		}
	}
	data := rings(200, 4, classes, 2)
	apart, merged := probabilities(t, scores[0], data), probabilities(t, scores[1], data)
	for i := range apart.Data {
		if math.Abs(float64(apart.Data[i]-merged.Data[i])) > 1e-4 {
			t.Fatalf("probability %d is %v with terms of each increment, and %v with merged ones", i, apart.Data[i], merged.Data[i])
		}
	}
}
