package run

import (
	"context"

	"github.com/stagewise/stagewise/schemas"
)

// ReadWindow reads the window of a run of a chain from its place on the state topic; nil if it is no longer there.
func ReadWindow(ctx context.Context, c *Client, place schemas.StatePlace) (w *schemas.Window, err error) {
	documents := schemas.Documents{}
	err = c.Remaining(ctx, c.Topics.State, 0, place.From, place.To, func(m Message) error {
		if w != nil || m.Run() != place.Run || m.Kind() != schemas.KindWindow || m.Value == nil {
			return nil
		}
		whole, ok, err := documents.Add(m.Message)
		if err != nil || !ok {
			return err
		}
		w, err = schemas.DecodeJSON[schemas.Window](whole)
		return err
	})
	return w, err
}
