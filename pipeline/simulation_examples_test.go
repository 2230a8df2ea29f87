package pipeline

import (
	"context"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simExamples are the examples of a scenario, and what a run must say of them.
type simExamples struct {
	local     bool                // updates are visited by their solvers
	messages  [][]wire.Message    // by partition
	fromTopic int                 // number of messages of a topic that they are ingested from: see topicExamples; 0: none is
	files     bool                // runs are of the source, as of files; otherwise of everything on the topic
	seal      *schemas.SourceSeal // of the source; nil: there is none
	late      *schemas.SourceSeal // of a source that is sealed while a chain is made; nil: there is none
	forget    *schemas.Forget     // of a chain: rows that are forgotten while it is made; nil: none
	bad       []string            // the keys, on the quarantine topic, of messages that can't be used

	timed bool                 // they say when they were written: see simTimes
	gaps  [simPartitions][]gap // by partition

	holdout float64 // the fraction of the rows that are held out
	tested  bool    // some rows are for tests
	sparse  bool    // rows are sparse: their stages stay what they are

	rows       int64 // that count
	passedOver coverage.PassedOver
}

const (
	simPartitions = 2
	simRows       = 4 // of a message
)

// plainExamples are two messages without headers in each partition.
func plainExamples() *simExamples {
	e := &simExamples{rows: 4 * simRows}
	for p := range simPartitions {
		e.messages = append(e.messages, []wire.Message{simMessage(p, 0, schemas.Origin{}), simMessage(p, 1, schemas.Origin{})})
	}
	return e
}

// ingestedExamples are a source of four messages, one of which is repeated in each partition; messages of attempts at the same source
// that were interrupted; and messages of other producers, one of which has headers of its own and one of which can't be used.
func ingestedExamples(files bool) *simExamples {
	e := &simExamples{files: files}
	const whole = "whole"
	other := simMessage(0, 2, schemas.Origin{})
	other.Key = "shop"
	other.Headers = []wire.Header{{Key: "source", Value: "shop/7"}, {Key: "sequence", Value: "0"}, {Key: "kind", Value: "plan"},
		{Key: "run", Value: "1"}}
	bad := wire.Message{Value: []byte("no Arrow stream")}
	e.messages = [][]wire.Message{
		{sourceMessage("first", 0), sourceMessage(whole, 0), other, sourceMessage(whole, 0), sourceMessage(whole, 2)},
		{sourceMessage("first", 1), sourceMessage(whole, 1), sourceMessage("second", 1), sourceMessage(whole, 3), sourceMessage(whole, 1), bad},
	}
	e.seal = &schemas.SourceSeal{
		ID: string(wire.DigestJSON("a source")), Attempt: whole, Files: []string{"a.csv"}, Split: examples.Train.String(),
		Partitions: simPartitions, Messages: 4, Rows: 4 * simRows,
		Spans: coverage.Spans{{Partition: 0, From: 1, To: 5}, {Partition: 1, From: 1, To: 4}},
	}
	if files {
		e.rows, e.passedOver = 4*simRows, coverage.PassedOver{coverage.OtherProducer: 1, coverage.Repeated: 1, coverage.OtherSource: 1}
		return e
	}
	e.rows, e.passedOver = 5*simRows, coverage.PassedOver{coverage.Repeated: 2, coverage.Unsealed: 3}
	quarantined := schemas.Quarantined{Topic: protocol.TopicsOf(simName).Examples, Partition: 1, Offset: 5}
	e.bad = []string{quarantined.Message().Key}
	return e
}

// simMessage returns a message with simRows rows of its own. It is of another producer if the origin is zero.
func simMessage(partition, number int, origin schemas.Origin) wire.Message {
	data := rings(simRows, 2, 2, uint64(10*partition+number))
	rows := examples.Rows{Rows: simRows, Cols: 2, Words: data.labels}
	for _, row := range data.rows {
		rows.Floats = append(rows.Floats, row...)
	}
	m, err := origin.Message(&rows, memory.DefaultAllocator)
	if err != nil {
		panic(err) // the rows fit into a message
	}
	if origin.Source == "" {
		return wire.Message{Value: m.Value}
	}
	return m
}

// sourceMessage returns the message of the source with that sequence, from an attempt to ingest it.
func sourceMessage(attempt string, sequence int) wire.Message {
	origin := schemas.Origin{Source: string(wire.DigestJSON("a source")), Attempt: attempt, Sequence: int64(sequence)}
	return simMessage(sequence%simPartitions, sequence/simPartitions, origin)
}

// sealed returns the seal of the source, which it ingests again if the topic does not have all of it.
func (s *simulation) sealed(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger) (*schemas.SourceSeal, error) {
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return nil, err
	}
	if seal, err := source.SealOf(ctx, p, l, bounds, s.seal.ID); err != nil || seal != nil {
		return seal, err
	}
	s.log.happen(ingestion, "the source is ingested again")
	seal := *s.seal
	seal.Attempt, seal.Spans = "again "+strconv.Itoa(s.log.writes), make(coverage.Spans, simPartitions)
	for sequence := range int(seal.Messages) {
		span := &seal.Spans[sequence%simPartitions]
		at, err := p.Log.Append(ctx, p.Topics.Examples, sequence%simPartitions, sourceMessage(seal.Attempt, sequence))
		if err != nil {
			return nil, err
		}
		if span.Empty() {
			*span = coverage.Span{Partition: sequence % simPartitions, From: at}
		}
		span.To = at + 1
	}
	_, err = p.Log.Append(ctx, p.Topics.Plans, 0, seal.Message())
	return &seal, err
}

// inSolvers makes updates of the examples small enough for their solvers to visit.
func (e *simExamples) inSolvers() *simExamples {
	e.local = true
	return e
}
