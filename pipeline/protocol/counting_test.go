package protocol

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A run passes over the messages that it does not want, says why, and never counts a message twice.
func TestReplayPassesOver(t *testing.T) {
	whole := schemas.SourceSeal{ID: "a", Attempt: "1", Partitions: 2, Messages: 7, Spans: coverage.Spans{{Partition: 0, From: 10,
		To: 14}, {Partition: 1, From: 0, To: 3}}}
	other := schemas.SourceSeal{ID: "b", Attempt: "1", Partitions: 2, Messages: 4, Spans: coverage.Spans{{Partition: 0, From: 14,
		To: 16}, {Partition: 1, From: 3, To: 5}}}
	of := func(source string, sequence int) wire.Message {
		return wire.Message{Headers: []wire.Header{{Key: "stagewise-source", Value: source}, {Key: "stagewise-sequence",
			Value: strconv.Itoa(sequence)}}}
	}
	topic := func(source string, sequence, next int) wire.Message {
		m := of(source, sequence)
		m.Headers = append(m.Headers, wire.Header{Key: "stagewise-next", Value: strconv.Itoa(next)})
		return m
	}
	after := func(source string, next int, turn string) wire.Message {
		m := topic(source, 0, next)
		m.Headers = append(m.Headers, wire.Header{Key: "stagewise-after", Value: turn})
		return m
	}
	common := wire.Message{Headers: []wire.Header{{Key: "source", Value: "shop/1"}, {Key: "sequence", Value: "0"}}}
	const counts coverage.PassOverReason = ""
	type step struct {
		m    wire.Message
		want coverage.PassOverReason
	}
	for name, test := range map[string]struct {
		plan  schemas.Plan
		span  coverage.Span
		steps []step
		lost  coverage.PassedOver // at the end of the span
		err   bool
	}{
		"files": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole}}, coverage.Span{From: 10, To: 20},
			[]step{
				{of("a/1", 0), counts}, {of("a/1", 0), coverage.Repeated}, {of("a/1", 2), counts}, {of("a/1", 0), coverage.Repeated},
				{wire.Message{}, coverage.OtherProducer}, {common, coverage.OtherProducer}, {of("a", 4), coverage.OtherProducer}, {of("a/1", -4), coverage.OtherProducer},
				{of("b/1", 0), coverage.OtherSource}, {of("a/2", 4), coverage.OtherSource}, {of("a/1", 8), coverage.OtherSource}, {of("a/1", 3), coverage.OtherSource},
				{of("a/1", 4), counts}, {of("a/1", 6), counts},
			}, nil, false,
		},
		"files lack a message": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole}}, coverage.Span{From: 11, To: 20},
			[]step{{of("a/1", 2), counts}, {of("a/1", 4), counts}, {of("a/1", 6), counts}}, nil, true,
		},
		"a topic": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole, other}, Foreign: true}, coverage.Span{From: 10, To: 20},
			[]step{
				{of("a/1", 0), counts}, {of("a/1", 2), counts}, {of("a/1", 4), counts}, {of("a/1", 6), counts}, {of("a/1", 2), coverage.Repeated},
				{wire.Message{}, counts}, {common, counts}, {of("a/2", 4), coverage.Unsealed}, {of("b/1", 0), counts}, {of("b/1", 2), counts},
			}, nil, false,
		},
		"a topic of which sources were removed": {
			schemas.Plan{Sources: []schemas.SourceSeal{other}, Removed: []string{"a/1"}, Foreign: true}, coverage.Span{From: 14, To: 20},
			[]step{{of("a/1", 0), coverage.Removed}, {of("a/2", 0), coverage.Unsealed}, {of("b/1", 0), counts}, {of("b/1", 2), counts},
				{common, counts}}, nil, false,
		},
		"topics that ingest follows": {
			schemas.Plan{Foreign: true}, coverage.Span{From: 0, To: 20},
			[]step{
				{topic("topic:t/1", 4, 9), counts}, {topic("topic:t/1", 4, 9), coverage.Repeated}, {topic("topic:t/1", 4, 12), coverage.Repeated},
				{topic("topic:t/1", 9, 12), counts}, {topic("topic:u/1", 0, 1), counts}, {topic("topic:t/2", 0, 3), counts},
				{topic("topic:t/1", 14, 15), coverage.Repeated}, // of an earlier attempt
				{after("topic:t/3", 3, "1/12"), coverage.Repeated}, {after("topic:t/3", 3, "2/9"), coverage.Repeated}, {after("topic:t/3", 3, "2/3"), counts}, {after("topic:t/3", 3, "2/3"), coverage.Repeated},
				{after("topic:v/2", 3, "1/7"), counts}, // what it comes after is not in the span
				{of("topic:t/1", 15), counts},          // without what comes next it is of another producer
			}, nil, false,
		},
		"topics that ingest follows, in a run of files": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole}}, coverage.Span{From: 14, To: 14},
			[]step{{topic("topic:t/1", 0, 9), coverage.OtherSource}}, nil, true,
		},
		"topics that ingest follows, in a chain": {
			schemas.Plan{Foreign: true, Chain: &schemas.Chain{Progress: []schemas.SourceProgress{{Source: "topic:t", Attempt: "1",
				Next: []int64{9}}}}}, coverage.Span{From: 14, To: 20},
			[]step{{topic("topic:t/1", 4, 9), coverage.Repeated}, {topic("topic:t/1", 9, 11), counts}}, nil, false,
		},
		"what is left of a source": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole, other}, Foreign: true}, coverage.Span{From: 12, To: 20},
			[]step{{of("a/1", 4), counts}, {of("a/1", 2), coverage.Repeated}, {of("a/1", 6), counts}, {of("b/1", 0), counts}},
			coverage.PassedOver{coverage.Expired: 2, coverage.Missing: 1}, false,
		},
		"what is left out of a source, beside what is gone": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole}, Foreign: true, Expiring: coverage.Spans{{Partition: 0, From: 11, To: 13}}},
			coverage.Span{From: 13, To: 20},
			[]step{{of("a/1", 6), counts}}, coverage.PassedOver{coverage.Expired: 1}, false,
		},
		"nothing is left of a source": {
			schemas.Plan{Sources: []schemas.SourceSeal{whole, other}, Foreign: true}, coverage.Span{From: 14, To: 20},
			[]step{}, coverage.PassedOver{coverage.Expired: 4, coverage.Missing: 2}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			replay := NewCounting(&test.plan).Replay(test.span)
			for i, s := range test.steps {
				assert.Equal(t, replay.Accept(s.m), s.want, "message %d", i)
			}
			lost, err := replay.Complete()
			assert.True(t, maps.Equal(lost, test.lost) && (err != nil) == test.err, "not seen: %v, %v; expected %v", lost, err, test.lost)
		})
	}
	plan := schemas.Plan{Sources: []schemas.SourceSeal{whole, other}, Foreign: true, Spans: coverage.Spans{{Partition: 0, From: 10, To: 16}}}
	assert.Equal(t, NewCounting(&plan).WithoutSpan(), 3+2, "messages in a partition without a span")
}

// A run of a chain says how far each topic is counted, for the next one.
func TestReplayProgressOfTopics(t *testing.T) {
	plan := schemas.Plan{Foreign: true, Chain: &schemas.Chain{Progress: []schemas.SourceProgress{
		{Source: "topic:t", Attempt: "1", Next: []int64{0, 9}}, {Source: "gone", Attempt: "1", Next: []int64{0, 2}},
	}}}
	replay := NewCounting(&plan).Replay(coverage.Span{Partition: 1, From: 4, To: 6})
	for _, source := range []string{"topic:u/1", "topic:t/1"} {
		replay.Accept(wire.Message{Headers: []wire.Header{
			{Key: "stagewise-source", Value: source}, {Key: "stagewise-sequence", Value: "9"}, {Key: "stagewise-next", Value: "12"},
		}})
	}
	want := []statistics.PartitionProgress{{Partition: 1, Source: "topic:t", Attempt: "1", Next: 12}, {Partition: 1, Source: "topic:u", Attempt: "1", Next: 12}}
	assert.Equal(t, replay.Progress(), want, "progress")
}

// However a source is cut by retention and repeated by clients, each of its messages counts once or is counted as lost.
func FuzzReplayCountsOnce(f *testing.F) {
	f.Add(uint8(9), uint8(2), uint8(1), []byte{0, 1, 1, 0, 2})
	f.Fuzz(func(t *testing.T, messages, partitions, first uint8, repeats []byte) {
		seal := schemas.SourceSeal{ID: "a", Attempt: "1", Partitions: 1 + int(partitions%4), Messages: int64(messages % 64)}
		total := coverage.PassedOver{}
		counted, there := int64(0), int64(0)
		for p := range seal.Partitions {
			seal.Spans = append(seal.Spans, coverage.Span{Partition: p, To: seal.In(p)})
		}
		plan := schemas.Plan{Sources: []schemas.SourceSeal{seal}, Foreign: true}
		for p, span := range seal.Spans {
			from := min(int64(first), span.To)
			replay := NewCounting(&plan).Replay(coverage.Span{Partition: p, From: from, To: span.To})
			for i := from; i < span.To; i++ {
				there++
				again := 0
				if len(repeats) > 0 {
					again = int(repeats[int(i)%len(repeats)]) % 3
				}
				for back := range int64(again) + 1 {
					if at := i - back; at >= from {
						m := wire.Message{Headers: []wire.Header{{Key: "stagewise-source", Value: "a/1"}, {Key: "stagewise-sequence",
							Value: fmt.Sprint(at*int64(seal.Partitions) + int64(p))}}}
						if replay.Accept(m) == "" {
							counted++
						}
					}
				}
			}
			lost := assert.Must(replay.Complete())(t)
			total.Add(lost)
		}
		assert.True(t, counted == there && total[coverage.Missing] == 0 && counted+total[coverage.Expired] == seal.Messages,
			"%d of %d messages counted, lost %v, of %d", counted, there, total, seal.Messages)
	})
}
