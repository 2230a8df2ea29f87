package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
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
					visit.NewShare(p.Segment, &visit.Part{Span: span, Ordinal: i})
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

// A plan that does not fit a warm start is refused by the first key that differs, with both values.
func TestCheckFeatures(t *testing.T) {
	plan := func() *schemas.Plan {
		return &schemas.Plan{
			Seed: 1, Intercept: true, Prepare: schemas.Prepare{Scale: "unit"},
			Stages: []schemas.Stage{{Link: "softmax", Features: schemas.Features{Kind: "rff", Size: 256, BandwidthScale: 1}}},
		}
	}
	for want, change := range map[string]func(p *schemas.Plan){
		"": func(*schemas.Plan) {},
		"seed 2, this run has 1: a warm start needs the same seed":                        func(p *schemas.Plan) { p.Seed = 2 },
		"intercept false, this run has true: a warm start needs the same intercept":       func(p *schemas.Plan) { p.Intercept = false },
		"prepare: scale none, this run has unit: a warm start needs the same preparation": func(p *schemas.Plan) { p.Prepare.Scale = "none" },
		"stage 0: link identity, this run has softmax: a warm start needs the same link":  func(p *schemas.Plan) { p.Stages[0].Link = "identity" },
		"stage 0: scores true, this run has false: a warm start needs the same scores":    func(p *schemas.Plan) { p.Stages[0].Scores = true },
		"prepare: scale none, this run has unit; pca 50, this run has 0: a warm start needs the same preparation": func(p *schemas.Plan) {
			p.Prepare = schemas.Prepare{Scale: "none", PCA: 50}
		},
		"stage 0: features: size 512, this run has 256: a warm start needs the same features": func(p *schemas.Plan) {
			p.Stages[0].Features.Size = 512
		},
	} {
		earlier := plan()
		change(earlier)
		switch err := dispatch.CheckFeatures(plan(), earlier); {
		case want == "" && err != nil, want != "" && (err == nil || err.Error() != want):
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// An error about another arithmetic names only what differs.
func TestStandAsideError(t *testing.T) {
	plan := &schemas.Plan{Arithmetic: schemas.Arithmetic{Numerics: "1", BLAS: "OpenBLAS", Vector: "avx512"}}
	why := dispatch.Unable(nil, plan, schemas.Arithmetic{Numerics: "1", BLAS: "gonum", Vector: "avx512"})
	err := &dispatch.StandAsideError{Run: "73c9650f2e46", Why: why}
	const want = "run 73c9650f2e46 goes first, but this process can't execute it: its arithmetic differs: blas OpenBLAS, this process has " +
		"gonum. Finish the run where it was planned, or cancel it with --supersede"
	if err.Error() != want {
		t.Error(err)
	}
}

// A trigger's run replaces the runs of triggers that wait, and no other: not the one that goes first, and none that somebody submitted
// by hand.
func TestTriggerReplacesWaitingRuns(t *testing.T) {
	log, job := openEmbedded(t), newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	noError(t, topics.Create(t.Context(), p, &job))
	files := must(source.IngestFiles(t.Context(), p, job, event.Ignore{}))(t)
	var submitted []string
	for i, trigger := range []bool{true, true, false, true, true} {
		job.Seed = uint64(i)
		l := readLedger(t, p)
		plan, err := dispatch.Plan(t.Context(), p, job, dispatch.Arithmetic(openBLAS(t)), files.Seals, l, files.Retention)
		noError(t, err)
		plan.Trigger = trigger
		if plan, _, err = dispatch.Enqueue(t.Context(), p, plan, l, false, event.Ignore{}); err != nil {
			t.Fatal(err)
		}
		submitted = append(submitted, plan.Run())
	}
	var unfinished []string
	l := readLedger(t, p)
	for id := range l.Unfinished() {
		unfinished = append(unfinished, id)
	}
	if want := []string{submitted[0], submitted[2], submitted[4]}; !slices.Equal(unfinished, want) {
		t.Errorf("unfinished are %v of %v, expected %v", unfinished, submitted, want)
	}
	if end := l.End(submitted[1]); end == nil || end.State != schemas.Cancelled || !strings.Contains(end.Reason, submitted[3]) {
		t.Errorf("the second run ended with %+v, expected that the fourth replaces it", end)
	}
}

// A run of another arithmetic that nobody has taken up is given up, with the reason. One that a worker has taken up goes on.
func TestUnclaimedRunIsGivenUp(t *testing.T) {
	for name, taken := range map[string]bool{"nobody": false, "a worker": true} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
			p, plan := submitJob(t, log, job, event.Ignore{})
			p.GiveUp = time.Nanosecond
			if taken {
				failure := &schemas.Failure{Run: plan.Run()} // any message of the run
				must(p.Log.Append(t.Context(), p.Topics.Statistics, 0, failure.Message()))(t)
			}
			if got, err := dispatch.TakenUp(t.Context(), p, plan); got != taken || err != nil {
				t.Fatalf("taken up: %v, %v", got, err)
			}
			if taken {
				return
			}
			noError(t, dispatch.EndedOrGivenUp(t.Context(), p, plan, event.Ignore{}))
			if end := readLedger(t, p).End(plan.Run()); end.State != schemas.Failed || !strings.Contains(end.Reason,
				"no worker and no solver started the run") {
				t.Errorf("the run ended with %+v", end)
			}
		})
	}
}
