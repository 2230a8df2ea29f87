package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// writtenSource is a source whose messages are written one by one, between those of others.
type writtenSource struct {
	seal     schemas.SourceSeal
	messages []kafkalog.Message
	sealed   bool
}

// ingestApart returns sources of a job, none of which is on a log yet. The last is a second ingest of the first.
func ingestApart(t *testing.T, job topics.Job, rows ...int) (sources []*writtenSource) {
	t.Helper()
	topicNames := protocol.TopicsOf(job.Name)
	for i, n := range append(rows, rows[0]) {
		log, seed := openEmbedded(t), uint64(i)
		if i == len(rows) {
			seed = 0
			for p := range job.Examples.Partitions { // so that the ingest begins elsewhere, and is another attempt
				produce(t, log, job, p, kafkalog.Message{Value: []byte("of another producer")})
			}
		}
		job.Examples.Train = []string{rings(n, 4, 3, seed).writeCSV(t, t.TempDir(), "late.csv")}
		if err := source.Ingest(t.Context(), log, job, event.Ignore{}); err != nil {
			t.Fatal(err)
		}
		l, err := topics.Open(log, job.Name, nil).ReadLedger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := &writtenSource{}
		for id := range l.Sources() {
			s.seal = *l.Seals(id)[0]
		}
		s.seal.Spans = nil
		for _, m := range readTopic(t, log, topicNames.Examples) {
			if origin, _ := schemas.OriginOf(protocol.FromKafka(m)); origin.Source == s.seal.ID {
				s.messages = append(s.messages, m)
			}
		}
		sources = append(sources, s)
	}
	return sources
}

// write writes the next message of a source to its partition, sometimes twice.
func (s *writtenSource) write(t *testing.T, log *kafkalog.Log, job topics.Job, twice bool) {
	m := s.messages[0]
	s.messages = s.messages[1:]
	for range 1 + map[bool]int{true: 1}[twice] {
		at, err := log.Append(t.Context(), protocol.TopicsOf(job.Name).Examples, m.Partition, m)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.seal.Spans, func(span coverage.Span) bool { return span.Partition == m.Partition })
		if i < 0 {
			i, s.seal.Spans = len(s.seal.Spans), append(s.seal.Spans, coverage.Span{Partition: m.Partition, From: at})
		}
		s.seal.Spans[i].To = at + 1
	}
}

// sealLate writes the seal of a source.
func (s *writtenSource) sealLate(t *testing.T, log *kafkalog.Log, job topics.Job) {
	s.sealed = true
	if _, err := topics.Open(log, job.Name, nil).Log.Append(t.Context(), protocol.TopicsOf(job.Name).Plans, 0, s.seal.Message()); err != nil {
		t.Fatal(err)
	}
}

// checkCountedOnce checks which messages the window of the newest version has: each of the sealed sources once, of two ingests of one
// source those of one, and all of other producers.
func checkCountedOnce(t *testing.T, log *kafkalog.Log, job topics.Job, sources []*writtenSource, foreign int) {
	t.Helper()
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, last := topics.Open(log, job.Name, arrowtest.Allocator(t)), versions[len(versions)-1]
	window, err := protocol.ReadStateWindow(t.Context(), p.Client, *last.Window, nil)
	if err != nil {
		t.Fatal(err)
	}
	counted, rows := map[schemas.Origin]int{}, int64(0)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		for i := range window.Increments {
			c := &window.Increments[i].Increment
			covered, _ := c.On(m.Partition)
			within := slices.ContainsFunc(covered.Spans, func(s coverage.Span) bool { return s.From <= m.Offset && m.Offset < s.To })
			if within && !c.Skips(m.Partition, m.Offset) {
				origin, _ := schemas.OriginOf(protocol.FromKafka(m))
				counted[origin]++
			}
		}
	}
	ingests := map[string]map[string]bool{}
	for origin, n := range counted {
		if origin == (schemas.Origin{}) {
			if n != foreign {
				t.Errorf("%d messages of other producers count, expected %d", n, foreign)
			}
			continue
		}
		if n != 1 {
			t.Errorf("message %d of source %s counts %d times", origin.Sequence, origin.Source[:6], n)
		}
		if ingests[origin.Source] == nil {
			ingests[origin.Source] = map[string]bool{}
		}
		ingests[origin.Source][origin.Attempt] = true
	}
	messages := 0
	for _, s := range sources {
		if s.sealed && ingests[s.seal.ID][s.seal.Attempt] {
			messages += int(s.seal.Messages)
			rows += s.seal.Rows
		}
		if s.sealed && len(ingests[s.seal.ID]) != 1 {
			t.Errorf("%d ingests of source %s count, expected one", len(ingests[s.seal.ID]), s.seal.ID[:6])
		}
	}
	delete(counted, schemas.Origin{})
	if len(counted) != messages || window.Rows() != rows+int64(foreign)*3 {
		t.Errorf("%d messages of sources and %d rows count, expected %d and %d", len(counted), window.Rows(), messages, rows+int64(foreign)*3)
	}
}

// A chain learns the rows of a source that is sealed after the chain has passed its messages, each once: whatever stands between them,
// whenever the chain's process ends, and if the source is ingested twice.
func TestChainLearnsSourcesSealedLate(t *testing.T) {
	long(t)
	stage := rffStage("softmax", 12, 3)
	stage.Ridge = 1e-3
	job := newJob(t, rings(10, 4, 3, 9), table{}, stage)
	job.Examples.BatchRows, job.Examples.Partitions, job.Keep, job.Segment = 7, 3, 1000, 4
	job.Examples.Classes, job.Retrain = []string{"ring0", "ring1", "ring2"}, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window = 60, topics.FullOptions{Every: 5}, topics.WindowOptions{}
	other := ingestApart(t, job, 3)[0].messages[0]
	other.Headers = nil
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var want []string
			for _, interrupted := range []bool{false, true} {
				random, log := rand.New(rand.NewPCG(seed, 0)), openEmbedded(t)
				if err := log.Create(t.Context(), topics.Topics(job)...); err != nil {
					t.Fatal(err)
				}
				sources, foreign, learnt := ingestApart(t, job, 200, 90, 150, 40), 0, int64(0)
				job := job
				job.Examples.Train = nil
				retrain := func() {
					for events := 9; ; events += 13 {
						ctx, cancel := context.WithCancel(t.Context())
						var rec event.Recorder = event.Ignore{}
						if interrupted {
							rec = &interrupter{events, cancel}
						}
						report, err := Retrain(ctx, log, openBLAS(t), job, true, rec)
						cancel()
						if err != nil && !errors.Is(err, context.Canceled) {
							t.Fatal(err)
						}
						if learnt += report.Rows; err == nil {
							return
						}
					}
				}
				for steps := 0; ; steps++ {
					var unwritten, unsealed []*writtenSource
					for i, s := range sources {
						if len(s.messages) > 0 {
							unwritten = append(unwritten, s)
						} else if !s.sealed && i != 2 { // which stays unsealed
							unsealed = append(unsealed, s)
						}
					}
					if len(unwritten)+len(unsealed) == 0 {
						break
					}
					switch what := random.IntN(100); {
					case what < 80 && len(unwritten) > 0:
						unwritten[random.IntN(len(unwritten))].write(t, log, job, random.IntN(5) == 0)
					case what < 88:
						produce(t, log, job, random.IntN(3), other)
						foreign++
					case what < 94 && len(unsealed) > 0:
						unsealed[random.IntN(len(unsealed))].sealLate(t, log, job)
					case what >= 94 && foreign > 0:
						retrain()
					}
				}
				retrain()
				checkCountedOnce(t, log, job, sources, foreign)
				got := digests(t, log, job.Name)
				if !interrupted {
					if want = got; len(want) < 8 {
						t.Errorf("only %d versions", len(want))
					}
					if rows := int64(200 + 90 + 40 + 3*foreign); learnt != rows {
						t.Errorf("the reports say %d rows, expected %d", learnt, rows)
					}
				} else if !slices.Equal(got, want) {
					t.Errorf("interrupted:\n%v\nexpected\n%v", got, want)
				}
			}
		})
	}
}
