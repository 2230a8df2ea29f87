package protocol

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
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
// continues after the place: of a message that was written twice, by a second solver or by a client that got no response,
// compaction keeps the last copy.
func read(ctx context.Context, c *Client, place schemas.StatePlace, kind wire.Kind,
	with func(wire.Message) (whole bool, err error)) error {
	for _, span := range []coverage.Span{{From: place.From, To: place.To}, {From: place.To, To: math.MaxInt64}} {
		for m, err := range c.Remaining(ctx, c.Topics.State, 0, span.From, span.To) {
			if err != nil {
				return err
			}
			if m.Run() != place.Run || m.Kind() != kind || m.Value == nil {
				continue
			}
			if whole, err := with(m.Message); whole || err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadStateRecords calls with for the records of a kind at a place of the state topic, or after it, until with returns true.
// stages is the number of stages of their run.
func ReadStateRecords(ctx context.Context, c *Client, place schemas.StatePlace, kind wire.Kind, stages int,
	with func(*wire.Record[float64]) (whole bool, err error)) error {
	collector := statistics.Collector{}
	return read(ctx, c, place, kind, func(m wire.Message) (bool, error) {
		r, err := collector.Add(m, c.Memory)
		if err != nil || r == nil || r.Stage < 0 || r.Stage >= stages {
			return false, err
		}
		return with(r)
	})
}

// stateRecords are records of one kind that a run has written to the state topic.
type stateRecords struct {
	kind  wire.Kind
	run   string
	index int // of terms: index of their increment in the run's window
}

// compare defines a fixed order of records, so that all processes delete them in the same order.
func (r stateRecords) compare(other stateRecords) int {
	return cmp.Or(strings.Compare(string(r.kind), string(other.kind)), strings.Compare(r.run, other.run), cmp.Compare(r.index, other.index))
}

// recordsOf returns the records on the state topic that a run reads to continue from a window, with their places.
func recordsOf(w *StateWindow) map[stateRecords]schemas.StatePlace {
	all := map[stateRecords]schemas.StatePlace{{schemas.KindWindow, w.At.Run, 0}: w.At}
	for _, at := range w.Bases {
		all[stateRecords{schemas.KindWindow, at.Run, 0}] = at
	}
	all[stateRecords{statistics.KindMoments, w.Moments.Run, 0}] = w.Moments
	for i := range w.Increments {
		at := w.Increments[i].Terms
		all[stateRecords{statistics.KindTerms, at.Run, at.Index}] = at
	}
	delete(all, stateRecords{}) // from a chain without updates
	return all
}

// ReleaseState writes tombstones for the records on the state topic that runs need to continue from the window gone, but not from
// any of the windows kept. It may be repeated.
//
// The keys of records are derived from their places. Reading them instead would transfer all values: 13 MB for three
// stages of 1,024 features and 10 classes. The key of a window has its digest, so its few kilobytes are read.
func ReleaseState(ctx context.Context, c *Client, gone *StateWindow, kept ...*StateWindow) error {
	records := recordsOf(gone)
	for _, k := range kept {
		for r := range recordsOf(k) {
			delete(records, r)
		}
	}
	var tombstones []wire.Message
	for _, r := range slices.SortedFunc(maps.Keys(records), stateRecords.compare) {
		at := records[r]
		if r.run == "" {
			continue
		}
		for stage, chunks := range at.Chunks {
			id := wire.Identity{Kind: r.kind, Run: r.run, Stage: stage, Visit: r.index}
			for chunk := range chunks {
				tombstones = append(tombstones, wire.Message{Key: id.Key(chunk)})
			}
		}
		if r.kind != schemas.KindWindow {
			continue
		}
		for m, err := range c.Remaining(ctx, c.Topics.State, 0, at.From, at.To) {
			if err != nil {
				return fmt.Errorf("read the keys of a window: %w", err)
			}
			if m.Run() == r.run && m.Kind() == r.kind {
				tombstones = append(tombstones, m.Tombstone())
			}
		}
	}
	_, err := c.Log.Append(ctx, c.Topics.State, 0, tombstones...)
	return err
}

// ReleaseOtherState writes tombstones for everything on the state topic except the state of runs that a window refers to; for
// everything if the window is nil.
func ReleaseOtherState(ctx context.Context, c *Client, kept *StateWindow) error {
	runs := map[string]bool{}
	if kept != nil {
		for r := range recordsOf(kept) {
			runs[r.run] = true
		}
	}
	tombstones := map[string]wire.Message{}
	for m, err := range c.Remaining(ctx, c.Topics.State, 0, 0, math.MaxInt64) {
		switch {
		case err != nil:
			return fmt.Errorf("read %s: %w", c.Topics.State, err)
		case m.Value == nil:
			delete(tombstones, m.Key)
		case !runs[m.Run()]:
			tombstones[m.Key] = m.Tombstone()
		}
	}
	list := slices.SortedFunc(maps.Values(tombstones), func(a, b wire.Message) int { return strings.Compare(a.Key, b.Key) })
	_, err := c.Log.Append(ctx, c.Topics.State, 0, list...)
	return err
}

// ReleaseStatistics deletes messages from the statistics and weights topics that precede the runs of the given plans.
func ReleaseStatistics(ctx context.Context, c *Client, plans ...*schemas.Plan) error {
	var since []*schemas.Since
	for _, p := range plans {
		since = append(since, &p.Since)
	}
	weights, sums := since[0].Weights, append([]int64(nil), since[0].Statistics...)
	for _, s := range since {
		weights = min(weights, s.Weights)
		sums = sums[:min(len(sums), len(s.Statistics))]
		for n := range sums {
			sums[n] = min(sums[n], s.Statistics[n])
		}
	}
	if err := c.Log.DeleteBefore(ctx, c.Topics.Weights, 0, weights); err != nil {
		return err
	}
	for n, before := range sums {
		if err := c.Log.DeleteBefore(ctx, c.Topics.Statistics, n, before); err != nil {
			return err
		}
	}
	return nil
}
