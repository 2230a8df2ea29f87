package pipeline

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// Any bytes are a model, which predicts, or an error.
func FuzzReadModel(f *testing.F) {
	log := openEmbedded(f)
	for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
		job := jobOn(f, rings(60, 2, 2, 1), table{}, stage(l, 3, 1))
		job.Name = "test." + string(l)
		_, model, err := Train(f.Context(), log, openBLAS(f), job, TrainOptions{}, &events{})
		if err != nil {
			f.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := model.WriteTo(&file); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
		for i := range 40 {
			flipped := bytes.Clone(file.Bytes())
			flipped[len(flipped)*i/40] ^= 1 << (i % 8)
			f.Add(flipped)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		model, err := readModel(bytes.NewReader(file))
		if err != nil {
			return
		}
		model.Digest()
		if data := rings(3, max(model.Width(), 2), 2, 1); model.Width() > 1 {
			probabilities(t, model, data)
		}
	})
}

// Any messages of the plans topic are a ledger, and plans that a worker can
// take on.
func FuzzLedger(f *testing.F) {
	plan := func(p schemas.Plan) *schemas.Plan { return &p }
	sound := schemas.Plan{Name: "test", Segment: 16, Stages: []schemas.Stage{stage(link.Softmax, 20, 3)}, Prepare: schemas.Prepare{Scale: "none"}}
	wide := sound
	wide.Spans = schemas.Spans{{To: 1 << 60}}
	twice := sound
	twice.Classes = []string{"a", "a"}
	for _, p := range []*schemas.Plan{plan(sound), plan(wide), plan(twice), {Segment: 1}} {
		f.Add(string(schemas.KindPlan), p.Message().Value)
	}
	f.Add(string(schemas.KindEnd), (&schemas.End{Run: "run", State: schemas.Done}).Message().Value)
	f.Add(string(schemas.KindSource), (&schemas.SourceSeal{ID: "a", Partitions: 2, Messages: 1 << 62, Spans: schemas.Spans{{To: 1 << 62}}}).Message().Value)
	f.Fuzz(func(t *testing.T, kind string, value []byte) {
		l := &ledger{codec: formats{}, ends: map[string]*schemas.End{}}
		err := l.add(entry{Message: schemas.Message{Value: value, Headers: []schemas.Header{{Key: "kind", Value: kind}}}})
		if err != nil && !errors.Is(err, schemas.ErrDamaged) {
			t.Error(err)
		}
		for _, p := range l.unfinished() {
			l.ended(p.Content())
			narrow(p.Spans, l.sources)
			segments := 0.0
			for _, s := range p.Spans {
				segments += float64(s.To-s.From) / float64(p.Segment)
			}
			if segments < 100_000 { // those of a plan at the limit take their time
				for i, span := range p.Spans {
					divide(span, i, p.Segment)
				}
			}
		}
		l.ids()
	})
}
