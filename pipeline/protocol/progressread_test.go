package protocol

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// examplesLog is a partition of examples, with messages at some of its offsets.
type examplesLog struct {
	Log
	messages map[int64]wire.Message
}

func (l *examplesLog) Range(_ string, _ int, from, to int64) Reader {
	return &examplesReader{l, from, to}
}

type examplesReader struct {
	log      *examplesLog
	from, to int64
}

func (r *examplesReader) Next(context.Context) (Message, error) {
	for ; r.from < r.to; r.from++ {
		if m, ok := r.log.messages[r.from]; ok {
			r.from++
			return Message{Message: m, Offset: r.from - 1}, nil
		}
	}
	return Message{}, io.EOF
}

func (r *examplesReader) Close() error { return nil }

// How far a topic was read is the same if copies of earlier messages arrive late, behind any gap, and behind messages of other sources:
// what follows would otherwise be read again, and what a longer batch then has beyond the message with its sequence would never count.
func TestReadBehindGapsAndOthers(t *testing.T) {
	message := func(topic string, sequence int64) wire.Message {
		rows := &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}, Words: []string{"a"}}
		m, err := schemas.Origin{Source: schemas.TopicSource(topic), Attempt: "1", Sequence: sequence, Partitions: 1}.TopicMessage(
			[]schemas.TopicPosition{{Next: sequence + 1}}, rows, memory.DefaultAllocator)
		arrowtest.NoError(t, err)
		return m
	}
	for _, gap := range []int64{0, 1, 15, 16, 17, 200_000} {
		for _, others := range []int64{0, 15, 16, 17} {
			t.Run(fmt.Sprint(gap, " and ", others), func(t *testing.T) {
				log, end := &examplesLog{messages: map[int64]wire.Message{}}, int64(0)
				write := func(m wire.Message) {
					log.messages[end] = m
					end++
				}
				for sequence := range int64(20) {
					write(message("orders", sequence))
				}
				end += gap
				for sequence := range others {
					write(message("clicks", sequence))
				}
				write(message("orders", 3))
				client := &Client{Log: log, Topics: TopicsOf("test")}
				state, err := ReadTopicProgress(t.Context(), client, "orders", coverage.Span{To: end}, 16)
				if err != nil || state.Next != 20 || state.Position(0).Next != 20 {
					t.Errorf("read to sequence %d and offset %d, %v; expected 20", state.Next, state.Position(0).Next, err)
				}
			})
		}
	}
}
