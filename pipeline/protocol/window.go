package protocol

import (
	"context"
	"errors"
	"math"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// StoredWindow is a window of a chain, with all of its increments, and where it is on the state topic.
type StoredWindow struct {
	*schemas.Window
	At schemas.StatePlace
}

// ReadWindow reads the window of a run of a chain from its place on the state topic; nil if it is no longer there. known may be an earlier
// window, or nil: if the window is a change of it, nothing else is read.
func ReadWindow(ctx context.Context, c *Client, place schemas.StatePlace, known *StoredWindow) (*StoredWindow, error) {
	w, err := c.readWindow(ctx, place)
	if err != nil || w == nil {
		return nil, err
	}
	if n := len(w.Bases); n > 0 {
		base := known
		if base == nil || base.At.Run != w.Bases[n-1].Run {
			if base, err = ReadWindow(ctx, c, w.Bases[n-1], nil); err != nil || base == nil {
				return nil, err
			}
		}
		w.On(base.Window)
	}
	return &StoredWindow{w, place}, nil
}

// WindowEnds returns, by partition, before which offset the runs of a chain have looked at all messages, as the window
// at a place of the state topic says it; nil if it is no longer there.
func (c *Client) WindowEnds(ctx context.Context, place schemas.StatePlace) ([]int64, error) {
	w, err := c.readWindow(ctx, place)
	if err != nil || w == nil {
		return nil, err
	}
	return w.Ends, nil
}

// readWindow reads a window as it is stored.
func (c *Client) readWindow(ctx context.Context, place schemas.StatePlace) (w *schemas.Window, err error) {
	documents := wire.Documents{}
	err = c.ReadState(ctx, place, schemas.KindWindow, func(m wire.Message) (bool, error) {
		whole, ok, err := documents.Add(m)
		if err != nil || !ok {
			return false, err
		}
		w, err = schemas.DecodeJSON[schemas.Window](whole) // the caller changes it
		return true, err
	})
	return w, err
}

// ReadState calls with for the messages of a kind that are at a place of the state topic, until with returns true. If
// it does not, ReadState goes on behind the place: of a message that was written twice, by another solver or by a
// client that got no answer, compaction keeps the last copy.
func (c *Client) ReadState(ctx context.Context, place schemas.StatePlace, kind wire.Kind,
	with func(wire.Message) (whole bool, err error)) error {
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

// ReadStateRecords is [Client.ReadState] for records of a run's stages, of which there are so many.
func (c *Client) ReadStateRecords(ctx context.Context, place schemas.StatePlace, kind wire.Kind, stages int,
	with func(*wire.Record[float64]) (whole bool, err error)) error {
	collector := wire.Collector[float64]{}
	return c.ReadState(ctx, place, kind, func(m wire.Message) (bool, error) {
		r, err := c.Codec.CollectDouble(&collector, m)
		if err != nil || r == nil || r.Stage < 0 || r.Stage >= stages {
			return false, err
		}
		return with(r)
	})
}
