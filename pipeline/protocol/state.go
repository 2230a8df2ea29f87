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

// ReadWindow reads a chain's window from its place on the state topic; nil if it is gone.
func ReadWindow(ctx context.Context, c *Client, place schemas.StatePlace) (w *schemas.Window, err error) {
	documents := wire.Documents{}
	err = read(ctx, c, place, schemas.KindWindow, func(m wire.Message) (bool, error) {
		whole, ok, err := documents.Add(m)
		if err == nil && ok {
			w, err = schemas.DecodeJSON[schemas.Window](whole)
		}
		return ok, err
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

// recordsOf returns the records on the state topic that a run reads to continue from a window, apart from the window, with their places.
func recordsOf(w *schemas.Window) map[stateRecords]schemas.StatePlace {
	all := map[stateRecords]schemas.StatePlace{{statistics.KindMoments, w.Moments.Run, 0}: w.Moments}
	for i := range w.Increments {
		at := w.Increments[i].Terms
		all[stateRecords{statistics.KindTerms, at.Run, at.Index}] = at
	}
	return all
}

// ReleaseState writes tombstones for the records on the state topic that runs need to continue from the window gone, but not from
// any of the windows kept. It may be repeated.
//
// The keys of records are derived from their places. Reading them instead would transfer all values: 13 MB for three
// stages of 1,024 features and 10 classes. Those of a window contain the digest of its JSON.
func ReleaseState(ctx context.Context, c *Client, gone *schemas.Window, kept ...*schemas.Window) error {
	records := recordsOf(gone)
	for _, k := range kept {
		for r := range recordsOf(k) {
			delete(records, r)
		}
	}
	var tombstones []wire.Message
	for _, r := range slices.SortedFunc(maps.Keys(records), stateRecords.compare) {
		for stage, chunks := range records[r].Chunks {
			id := wire.Identity{Kind: r.kind, Run: r.run, Stage: stage, Visit: r.index}
			for chunk := range chunks {
				tombstones = append(tombstones, wire.Message{Key: id.Key(chunk)})
			}
		}
	}
	messages, err := gone.Messages()
	if err != nil {
		return err
	}
	for _, m := range messages {
		tombstones = append(tombstones, m.Tombstone())
	}
	_, err = c.Log.Append(ctx, c.Topics.State, 0, tombstones...)
	return err
}

// ReleaseOtherState writes tombstones for everything on the state topic except the state of runs that a window refers to; for
// everything if the window is nil.
func ReleaseOtherState(ctx context.Context, c *Client, kept *schemas.Window) error {
	runs := map[string]bool{}
	if kept != nil {
		runs[kept.Run] = true
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
