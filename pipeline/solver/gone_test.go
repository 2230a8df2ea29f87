package solver

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The brokers have lost a visit, but not the final weights made from it. No worker makes the visit again, so a solver of a
// chain that takes over the run does not wait forever: the run fails, unless the visit is on the topic. It waits for the
// due visit.
func TestVisitThatIsGone(t *testing.T) {
	for name, test := range map[string]struct{ final, there bool }{
		"lost": {final: true}, "there": {final: true, there: true}, "due": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			plan := s.plan
			plan.Chain, plan.Since.Statistics = &schemas.Chain{Number: 1}, []int64{0}
			s = New(s.Client, nil, plan, 0, groupOwner{make(chan struct{})}, Options{}, event.Ignore{}) // of the modified plan
			planned := arrowtest.Must(plan.Messages())(t)
			log := topicsLog{topics: map[string][]wire.Message{s.Topics.Plans: planned}}
			write := func(topic string, messages []wire.Message, err error) {
				arrowtest.NoError(t, err)
				log.topics[topic] = append(log.topics[topic], messages...)
			}
			result := surveyResult(s)
			messages, err := s.Codec.EncodeSingle(result)
			write(s.Topics.Weights, messages, err)
			v := protocol.Visit{Stage: 0, Parent: accept(t, s, result)}
			if test.final {
				final := (&schemas.Weights{Identity: wire.Identity{Kind: schemas.KindWeights, Run: s.run, Visit: 1, Parent: v.Parent},
					Final: &schemas.Final{}}).Record()
				accept(t, s, final)
				messages, err := s.Codec.EncodeSingle(final)
				write(s.Topics.Weights, messages, err)
			}
			if test.there {
				messages, err := s.Codec.EncodeDouble((&statistics.Visit{Identity: s.identity(statistics.KindVisit, v, 0),
					Covered: coverage.Coverage{Spans: plan.Spans}}).Record())
				write(s.Topics.Statistics, messages, err)
			}
			s.Log, s.scratch, s.subscription = log, &scratch{}, &scripted{late: 3}
			s.inbox.Begin(0)
			sum, err := s.gather(t.Context(), s.gathering(v, s.visitSum()))
			switch gone := errors.As(err, new(*goneError)); {
			case test.there && err != nil, test.final && !test.there && !gone, !test.final && !errors.Is(err, errOver):
				t.Errorf("gather returns %+v, %v", sum, err)
			}
		})
	}
}

// Another solver has published the survey's result while this one waits for the survey. This one drops the survey's visits
// that arrive from then on, and does not consider them deleted, whether it learns of the result from the subscription or
// from a check after a timeout.
func TestVisitThatIsNoLongerNeeded(t *testing.T) {
	for name, subscribed := range map[string]bool{"from the subscription": true, "after a wait": false} {
		t.Run(name, func(t *testing.T) {
			s := newTestSolver(event.Ignore{})
			planned := arrowtest.Must(s.plan.Messages())(t)
			result := surveyResult(s)
			weights := arrowtest.Must(s.Codec.EncodeSingle(result))(t)
			log := topicsLog{topics: map[string][]wire.Message{s.Topics.Plans: planned}}
			script := &scripted{late: 1}
			deliver := func(topic string, messages ...wire.Message) {
				for _, m := range messages {
					script.deliveries = append(script.deliveries, &protocol.Delivery{Topic: topic, Message: protocol.Message{Message: m}})
				}
			}
			if subscribed {
				deliver(s.Topics.Weights, weights...)
				for _, v := range []protocol.Visit{{Stage: wire.Survey, Parent: s.chain.Root}, {Stage: 0, Parent: result.Digest()}} {
					visit := statistics.Visit{Identity: s.identity(statistics.KindVisit, v, 0), Covered: coverage.Coverage{Spans: s.plan.Spans}}
					messages := arrowtest.Must(s.Codec.EncodeDouble(visit.Record()))(t)
					deliver(s.Topics.Statistics, messages...)
				}
			} else {
				log.topics[s.Topics.Weights] = weights
			}
			s.Log, s.scratch, s.subscription = log, &scratch{}, script
			s.owner = groupOwner{make(chan struct{})}
			s.inbox.Begin(wire.Survey)
			v := protocol.Visit{Stage: wire.Survey, Parent: s.chain.Root}
			if sum, err := s.gather(t.Context(), s.gathering(v, s.visitSum())); !errors.Is(err, errAccepted) {
				t.Errorf("gather returns %+v, %v; expected errAccepted", sum, err)
			}
		})
	}
}
