package protocol

import (
	"context"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// joinedLog has examples of several partitions, without gaps.
type joinedLog struct {
	Log
	partitions [][]wire.Message
}

func (l *joinedLog) Bounds(_ context.Context, _ string, partition int) (first, end int64, err error) {
	return 0, int64(len(l.partitions[partition])), nil
}

func (l *joinedLog) Spans(context.Context, string) (spans []coverage.Span, err error) {
	for p, messages := range l.partitions {
		spans = append(spans, coverage.Span{Partition: p, To: int64(len(messages))})
	}
	return spans, nil
}

func (l *joinedLog) Range(_ string, partition int, from, to int64) Reader {
	return &memoryReader{l.partitions[partition], from, to}
}

// Outcomes are compared with the rows of all partitions, whichever of them a run has, and however far each has come.
func TestReadJoined(t *testing.T) {
	type at struct{ outcomes, matched int64 }
	for name, test := range map[string]struct {
		partition       int    // of the joins; -1: they share the outcomes
		partitions      [][]at // progress of each message
		spans           coverage.Spans
		outcomes, alone int64
	}{
		"one partition": {-1, [][]at{{{10, 10}, {20, 15}, {40, 15}}}, coverage.Spans{{From: 1, To: 3}}, 30, 25},
		"level": {-1, [][]at{{{100, 50}, {200, 100}}, {{100, 50}, {200, 100}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 100, 0},
		"one is ahead": {-1, [][]at{{{100, 50}, {300, 150}}, {{100, 50}, {200, 100}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 200, 0},
		"one of the run": {-1, [][]at{{{100, 50}, {300, 150}}, {{100, 50}, {200, 100}}}, coverage.Spans{{From: 1, To: 2}}, 200, 0},
		"written since":  {-1, [][]at{{{100, 50}, {300, 150}}, {{20, 10}, {300, 150}}}, coverage.Spans{{To: 1}, {Partition: 1, To: 1}}, 100, 0},
		"far behind":     {-1, [][]at{{{100, 50}, {300, 150}}, {{20, 10}}}, coverage.Spans{{To: 2}, {Partition: 1, To: 1}}, 160, 0},
		"no rows":        {-1, [][]at{{{100, 50}, {300, 150}}, {}}, coverage.Spans{{To: 2}}, 300, 150},
		"other keys":     {-1, [][]at{{{100, 0}, {300, 0}}, {{90, 0}, {200, 0}}}, coverage.Spans{{To: 2}, {Partition: 1, To: 1}}, 300, 300},
		"other keys now": {-1, [][]at{{{100, 50}, {300, 50}}, {{100, 50}, {250, 50}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 200, 200},
		"by partition": {0, [][]at{{{100, 50}, {300, 150}}, {{10, 10}, {20, 20}}},
			coverage.Spans{{To: 2}, {Partition: 1, From: 1, To: 2}}, 310, 150},
	} {
		t.Run(name, func(t *testing.T) {
			log := &joinedLog{}
			for p, all := range test.partitions {
				messages := []wire.Message{}
				for i, c := range all {
					rows := &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}, Words: []string{"a"}}
					origin := schemas.Origin{Source: schemas.TopicSource("views"), Attempt: "1", Sequence: int64(i), Partitions: len(test.partitions)}
					m, err := origin.TopicMessage([]schemas.TopicPosition{{Partition: p, Next: int64(i) + 1}}, rows, memory.DefaultAllocator)
					arrowtest.NoError(t, err)
					joined := &examples.Joined{Joins: []examples.JoinCursor{{Partition: min(test.partition, p),
						Counts: examples.JoinCounts{Rows: 2 * c.matched, Outcomes: c.outcomes, Matched: c.matched}}}}
					m.Headers = append(m.Headers, joined.Header())
					messages = append(messages, m)
				}
				log.partitions = append(log.partitions, messages)
			}
			joined := arrowtest.Must(ReadJoined(t.Context(), &Client{Log: log, Topics: TopicsOf("test")}, test.spans))(t)
			if c, _ := joined.Counts(); c.Outcomes != test.outcomes || c.Alone() != test.alone {
				t.Errorf("%+v, %d without a row; expected %d outcomes, %d without a row", c, c.Alone(), test.outcomes, test.alone)
			}
		})
	}
}
