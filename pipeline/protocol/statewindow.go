package protocol

import (
	"context"
	"errors"
	"math"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// StateWindow is a chain's window with all of its increments, and its place on the state topic.
type StateWindow struct {
	*schemas.Window
	At schemas.StatePlace
}

// ReadStateWindow reads a window from its place on the state topic; nil if it is gone. known is an earlier window, or nil: if
// the window is a change of it, ReadStateWindow reads nothing else.
func ReadStateWindow(ctx context.Context, c *Client, place schemas.StatePlace, known *StateWindow) (*StateWindow, error) {
	w, err := readWindow(ctx, c, place)
	if err != nil || w == nil {
		return nil, err
	}
	if n := len(w.Bases); n > 0 {
		base := known
		if base == nil || base.At.Run != w.Bases[n-1].Run {
			if base, err = ReadStateWindow(ctx, c, w.Bases[n-1], nil); err != nil || base == nil {
				return nil, err
			}
		}
		w.On(base.Window)
	}
	return &StateWindow{w, place}, nil
}

// ChainEnds returns, by partition, the offset up to which the runs of a chain have processed messages, from the window at a
// place of the state topic; nil if it is gone.
func ChainEnds(ctx context.Context, c *Client, place schemas.StatePlace) ([]int64, error) {
	w, err := readWindow(ctx, c, place)
	if err != nil || w == nil {
		return nil, err
	}
	return w.Ends, nil
}

// readWindow reads a window without resolving changes.
func readWindow(ctx context.Context, c *Client, place schemas.StatePlace) (w *schemas.Window, err error) {
	documents := wire.Documents{}
	err = read(ctx, c, place, schemas.KindWindow, func(m wire.Message) (bool, error) {
		whole, ok, err := documents.Add(m)
		if err != nil || !ok {
			return false, err
		}
		w, err = schemas.DecodeJSON[schemas.Window](whole) // not cached: the caller modifies it
		return true, err
	})
	return w, err
}

// read calls with for the messages of a kind at a place of the state topic, until with returns true. If it does not, read
// continues behind the place: of a message that was written twice, by a second solver or by a client that got no response,
// compaction keeps the last copy.
func read(ctx context.Context, c *Client, place schemas.StatePlace, kind wire.Kind,
	with func(wire.Message) (whole bool, err error)) error {
	enough := errors.New("the caller has all")
	between := func(from, to int64) error {
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
	err := between(place.From, place.To)
	if err == nil {
		err = between(place.To, math.MaxInt64)
	}
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

// ReadStateRecords calls with for the records of a kind at a place of the state topic, or behind it, until with returns true.
// stages is the number of stages of their run. Records in single precision are widened.
func ReadStateRecords(ctx context.Context, c *Client, place schemas.StatePlace, kind wire.Kind, stages int,
	with func(*wire.Record[float64]) (whole bool, err error)) error {
	doubles, singles := wire.Collector[float64]{}, wire.Collector[float32]{}
	collect := func(m wire.Message) (*wire.Record[float64], error) {
		if !wire.IsSingle(m) {
			return c.Codec.CollectDouble(&doubles, m)
		}
		r, err := c.Codec.CollectSingle(&singles, m)
		if err != nil || r == nil {
			return nil, err
		}
		return wire.Widened(r), nil
	}
	return read(ctx, c, place, kind, func(m wire.Message) (bool, error) {
		r, err := collect(m)
		if err != nil || r == nil || r.Stage < 0 || r.Stage >= stages {
			return false, err
		}
		return with(r)
	})
}
