package protocol

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

func (c *Client) newLedger() *Ledger {
	return &Ledger{
		codec: c.Codec, topic: c.Topics.Plans, first: map[wire.Digest]int64{}, ends: map[string]*schemas.End{},
		seals: map[string][]*schemas.SourceSeal{}, incomplete: map[string]bool{}, removed: map[int]string{},
		uncertain: map[string]bool{}, overtaken: map[string]bool{}, passedOver: map[string]bool{},
	}
}

// ReadLedger reads the current state of the plans topic: the latest ledger on it, and the messages after it. The cost does
// not depend on the length of the history. Of the runs that ended before that ledger it has only the versions: see
// [Client.ReadHistory]. It skips damaged messages: see [Ledger.Report].
func (c *Client) ReadLedger(ctx context.Context) (*Ledger, error) {
	l, err := c.readLedger(ctx)
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	return l, nil
}

func (c *Client) readLedger(ctx context.Context) (*Ledger, error) {
	first, end, err := c.Log.Bounds(ctx, c.Topics.Plans, 0)
	if err != nil {
		return nil, err
	}
	// The latest ledger is usually among the last messages, followed by tombstones.
	for window := int64(4 * c.ledgerMessages()); ; window *= 8 {
		from := max(first, end-window)
		var messages []Message
		err := c.Between(ctx, c.Topics.Plans, 0, from, end, func(m Message) error {
			messages = append(messages, m)
			return nil
		})
		if err != nil {
			return nil, err
		}
		latest := c.latestLedger(messages)
		if latest == nil && from > first {
			continue
		}
		l, err := c.foldLedger(ctx, latest, messages, from, nil)
		if err != nil {
			return nil, err
		}
		if len(l.uncertain) > 0 {
			ends, err := c.earlierEnds(ctx, l)
			if err != nil {
				return nil, err
			}
			if len(ends) > 0 {
				if l, err = c.foldLedger(ctx, latest, messages, from, ends); err != nil {
					return nil, err
				}
			}
			clear(l.uncertain)
		}
		l.Next = end
		return l, nil
	}
}

// foldLedger returns the state of the latest ledger, nil if there is none, with the messages after it applied. The
// messages start at an offset. ended has the ends of runs that ended before all of these.
func (c *Client) foldLedger(ctx context.Context, latest *schemas.Ledger, messages []Message, from int64, ended map[string]*schemas.End) (
	*Ledger, error) {
	l := c.newLedger()
	l.ended = ended
	if latest != nil {
		if err := c.restore(ctx, l, latest, from); err != nil {
			return nil, err
		}
	}
	for _, m := range messages {
		if latest == nil || m.Offset >= latest.Before {
			l.fold(m)
		}
	}
	return l, nil
}

// earlierEnds returns the ends, covered by a ledger, of runs whose plans are on the topic twice. A client that gets no
// response writes its plan again; by then the run may have ended, and a ledger may cover its end. A role that did not know
// this may have written a second end. The first end determines where the next run starts, so the second one must not be
// mistaken for it.
func (c *Client) earlierEnds(ctx context.Context, l *Ledger) (map[string]*schemas.End, error) {
	ends := map[string]*schemas.End{}
	for _, run := range slices.Sorted(maps.Keys(l.uncertain)) {
		err := c.Remaining(ctx, l.topic, 0, l.Plan(run).Since.Plans, l.covered, func(m Message) error {
			if end := EndOf(m.Message); end != nil && end.Run == run && (ends[run] == nil || outranks(end.State, ends[run].State)) {
				ends[run] = end
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// latestLedger returns the ledger in the messages that is completed last; nil if there is none. A ledger that covers
// messages after itself is ignored: its writer had read messages that an unclean leader election has lost.
func (c *Client) latestLedger(messages []Message) *schemas.Ledger {
	type written struct {
		wire.Message
		offset, before int64
	}
	var all []written
	var documents wire.Documents
	for _, m := range messages {
		if m.Kind() != schemas.KindLedger || m.Value == nil {
			continue
		}
		whole, ok, err := c.Codec.Document(&documents, m.Message)
		if err != nil || !ok {
			continue
		}
		if before, err := schemas.LedgerBefore(whole); err == nil {
			all = append(all, written{whole, m.Offset, before})
		}
	}
	slices.SortStableFunc(all, func(a, b written) int { return cmp.Compare(a.before, b.before) })
	for _, w := range slices.Backward(all) { // only the latest is decoded
		if l, err := decodeJSON[schemas.Ledger](c.Codec, w.Message); err == nil && l.Before <= w.offset {
			return l
		}
	}
	return nil
}

// restore sets l to the state of a ledger on the topic, and applies the messages after it and before an offset.
func (c *Client) restore(ctx context.Context, l *Ledger, s *schemas.Ledger, before int64) error {
	for i := range s.Sources {
		l.addSeal(&s.Sources[i])
	}
	for i := range s.Removed {
		l.removeSource(&s.Removed[i])
	}
	for _, name := range s.Incomplete {
		l.incomplete[name] = true
	}
	l.divisions = s.Divisions
	l.versions, l.highest, l.completeTo, l.pinned, l.swept, l.versionsSwept = s.Versions, s.Highest, s.Highest, s.Pinned, s.Swept,
		s.VersionsSwept
	for _, place := range s.Unfinished {
		// If the plan was written twice, compaction keeps the second copy, at any offset.
		for _, to := range []int64{place.To, math.MaxInt64} {
			if l.index(place.Run) >= 0 {
				break
			}
			if err := c.readPlan(ctx, l, place.Run, place.From, to); err != nil {
				return err
			}
		}
		if i := l.index(place.Run); i >= 0 && place.Since != nil {
			l.setSince(i, *place.Since)
		}
	}
	l.chained = s.Chained
	l.written, l.bytes, l.Next, l.covered = 0, 0, s.Before, s.Before
	if s.Before >= before {
		return nil
	}
	return c.Remaining(ctx, c.Topics.Plans, 0, s.Before, before, func(m Message) error {
		l.fold(m)
		return nil
	})
}

// readPlan applies the plan of a run from a range of offsets.
func (c *Client) readPlan(ctx context.Context, l *Ledger, run string, from, to int64) error {
	return c.Remaining(ctx, c.Topics.Plans, 0, from, to, func(m Message) error {
		if m.Kind() == schemas.KindPlan && m.Run() == run {
			l.fold(m)
		}
		return nil
	})
}

// ReadHistory returns a ledger that also has all past plans and ends that are still on the plans topic.
func (c *Client) ReadHistory(ctx context.Context) (*Ledger, error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	past := c.newLedger()
	err = c.Remaining(ctx, l.topic, 0, 0, l.Next, func(m Message) error {
		past.fold(m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	for _, p := range past.plans { // past plans without an end are omitted: their ends were removed
		if end := past.ends[p.place.Run]; end != nil && l.index(p.place.Run) < 0 {
			l.plans = append(l.plans, p)
			l.ends[p.place.Run] = end
		}
	}
	return l, nil
}

// GoesOn reports whether a run is current: it was submitted, no earlier run is unfinished, it has not ended, and it starts
// to read at the offsets in its plan. A role calls GoesOn when it has waited long for a message: after an unclean leader
// election, the expected message may have an offset that was already read, or the run's plan may be lost, or the end of
// the previous run, which determines where this one starts. Roles that disagree about the run or its start would wait for
// each other forever.
func (c *Client) GoesOn(ctx context.Context, run string, since schemas.Since) (bool, error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return false, err
	}
	for id, plan := range l.Unfinished() {
		return id == run && plan.Since.Weights == since.Weights && slices.Equal(plan.Since.Statistics, since.Statistics), nil
	}
	return false, nil
}
