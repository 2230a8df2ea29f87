package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// FuzzLedger checks that any message of the plans topic is either damaged or harmless: a plan that the ledger accepts can be
// followed.
func FuzzLedger(f *testing.F) {
	plan := func(p schemas.Plan) *schemas.Plan { return &p }
	sound := schemas.Plan{Name: "test", Segment: 16, Stages: []schemas.Stage{rffStage(link.Softmax, 20, 3)},
		Prepare: schemas.Prepare{Scale: "none"}}
	wide := sound
	wide.Spans = coverage.Spans{{To: 1 << 60}}
	twice := sound
	twice.Classes = []string{"a", "a"}
	for _, p := range []*schemas.Plan{plan(sound), plan(wide), plan(twice), {Segment: 1}} {
		messages := must(p.Messages())(f)
		f.Add(string(schemas.KindPlan), messages[0].Value)
	}
	f.Add(string(schemas.KindEnd), (&schemas.End{Run: "run", State: schemas.Done}).Message().Value)
	f.Add(string(schemas.KindSource), (&schemas.SourceSeal{ID: "a", Partitions: 2, Messages: 1 << 62,
		Spans: coverage.Spans{{To: 1 << 62}}}).Message().Value)
	f.Fuzz(func(t *testing.T, kind string, value []byte) {
		topics := protocol.TopicsOf("test")
		log := &simLog{topics: map[string][]*simPartition{topics.Plans: {{}}}}
		client := &protocol.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: topics, Codec: protocol.NewCodec(nil, 0)}
		l, err := client.ReadLedger(t.Context())
		noError(t, err)
		digest := sha256.Sum256(value)
		headers := []wire.Header{{Key: "kind", Value: kind}, {Key: "chunks", Value: "1"}, {Key: "digest", Value: hex.EncodeToString(digest[:])}}
		for _, number := range []string{"stage", "visit", "partition", "chunk"} {
			headers = append(headers, wire.Header{Key: number, Value: "0"})
		}
		err = l.Add(protocol.Message{Message: wire.Message{Value: value, Headers: headers}})
		if err != nil && !errors.Is(err, wire.ErrDamaged) {
			t.Error(err)
		}
		for _, p := range l.Unfinished() {
			p.Content()
			dispatch.Narrow(p.Spans, dispatch.Remaining(l, p.Spans))
			segments := 0.0
			for _, s := range p.Spans {
				segments += float64(s.To-s.From) / float64(p.Segment)
			}
			if segments < 100_000 { // the segments of a plan at the limit take too long
				for i, span := range p.Spans {
					partition.New(p.Segment, partition.NewPart(span, i, nil))
				}
			}
		}
	})
}

// A plan with more segments than fit in memory is rejected.
func TestPlanOfTooManySegments(t *testing.T) {
	plan := &schemas.Plan{Segment: 1, Spans: coverage.Spans{{From: 0, To: 1 << 60}}}
	if err := plan.Check(); !errors.As(err, new(*schemas.SegmentsError)) {
		t.Errorf("got error %v, expected a *schemas.SegmentsError", err)
	}
}
