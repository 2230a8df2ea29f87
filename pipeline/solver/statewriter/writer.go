// Package statewriter writes the state of a run to the state topic in large batches.
package statewriter

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Writer writes messages to the state topic of a client.
type Writer struct {
	Client   *protocol.Client
	messages []wire.Message
	bytes    int
	places   []*schemas.StatePlace // places of the messages, relative to the first
}

// writeBytes is the batch size of a [Writer].
const writeBytes = 32 << 20

// Add adds messages to the batch, and sets place once they are written, at the latest by the next [Writer.Flush].
func (w *Writer) Add(ctx context.Context, messages []wire.Message, place *schemas.StatePlace) error {
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
	return w.Flush(ctx)
}

// Flush writes the batch.
func (w *Writer) Flush(ctx context.Context) error {
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
