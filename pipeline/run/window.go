package run

import (
	"context"
	"errors"
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// ReadWindow reads the window of a run of a chain from its place on the state topic; nil if it is no longer there.
func ReadWindow(ctx context.Context, c *Client, place schemas.StatePlace) (w *schemas.Window, err error) {
	documents := schemas.Documents{}
	err = c.ReadState(ctx, place, schemas.KindWindow, func(m schemas.Message) (bool, error) {
		whole, ok, err := documents.Add(m)
		if err != nil || !ok {
			return false, err
		}
		w, err = schemas.DecodeJSON[schemas.Window](whole)
		return true, err
	})
	return w, err
}

// ReadState calls with for the messages of a kind that are at a place of the state topic, until with returns true. If it does not, ReadState
// goes on behind the place: of a message that was written twice, by another solver or by a client that got no answer, compaction keeps the
// last copy.
func (c *Client) ReadState(ctx context.Context, place schemas.StatePlace, kind schemas.Kind, with func(schemas.Message) (whole bool, err error)) error {
	enough := errors.New("the caller has all")
	read := func(from, to int64) error {
		return c.Remaining(ctx, c.Topics.State, 0, from, to, func(m Message) error {
			if m.Run() != place.Run || m.Kind() != kind || m.Value == nil {
				return nil
			}
			whole, err := with(m.Message)
			if err == nil && whole {
				err = enough
			}
			return err
		})
	}
	err := read(place.From, place.To)
	if err == nil {
		err = read(place.To, math.MaxInt64)
	}
	if errors.Is(err, enough) {
		return nil
	}
	return err
}
