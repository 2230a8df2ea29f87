// Package statewriter writes what a run leaves to the next one to the state topic, many messages at once.
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
	places   []*schemas.StatePlace // of the messages, counted from the first
}

// writeBytes is after how many bytes a [Writer] writes.
const writeBytes = 32 << 20

// Add writes messages, at the latest with the next [Writer.Flush], and then sets their place.
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

// Flush writes what was added.
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
