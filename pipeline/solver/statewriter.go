package solver

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// stateWriter writes messages to the state topic of a client.
type stateWriter struct {
	Client   *protocol.Client
	messages []wire.Message
	bytes    int
	places   []*schemas.StatePlace // places of the messages, relative to the first
}

// writeBytes is the batch size of a [stateWriter].
const writeBytes = 32 << 20

// add adds messages to the batch, and sets place once they are written, at the latest by the next [stateWriter.Flush].
func (w *stateWriter) add(ctx context.Context, messages []wire.Message, place *schemas.StatePlace) error {
	place.From = int64(len(w.messages))
	w.messages = append(w.messages, messages...)
	place.To = int64(len(w.messages))
	w.places = append(w.places, place)
	for _, m := range messages {
		w.bytes += len(m.Value)
	}
	if w.bytes < writeBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush writes the batch.
func (w *stateWriter) flush(ctx context.Context) error {
	at, err := w.Client.Log.Append(ctx, w.Client.Topics.State, 0, w.messages...)
	if err != nil {
		return err
	}
	for _, place := range w.places {
		place.From, place.To = place.From+at, place.To+at
	}
	w.messages, w.bytes, w.places = nil, 0, nil
	return nil
}
