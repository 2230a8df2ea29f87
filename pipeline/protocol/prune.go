package protocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Prune writes tombstones for all versions except the newest keep, and for messages of the plans topic that no longer
// count and are older than a day, or of any age if the client is alone. It always keeps the offered and the pinned
// version, versions from which a chain may continue, versions that unfinished runs refer to, and the plans needed to
// reproduce the versions of a chain. After an interruption, the next Prune does the rest.
func (c *Client) Prune(ctx context.Context, keep int) error {
	old, err := c.oldPlans(ctx) // before the ledger is read, so that the ledger has every copy of a plan whose end is old
	if err != nil {
		return err
	}
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return err
	}
	versions := l.Versions()
	var kept []schemas.Place
	for i, place := range versions {
		if i >= len(versions)-max(keep, 1) || l.ForSubscribers(place) || l.goneOnFrom(place) || l.NamedBy(place) != "" {
			kept = append(kept, place)
			continue
		}
		if err := c.RemoveVersion(ctx, place); err != nil {
			return err
		}
	}
	if !l.due(c.ledgerMessages()) {
		return nil
	}
	from, err := c.plansFrom(ctx, kept)
	if err != nil {
		return err
	}
	if err := c.sweep(ctx, l, min(old, from, l.covered)); err != nil {
		return fmt.Errorf("write what counts on %s: %w", c.Topics.Plans, err)
	}
	return nil
}

// plansFrom returns the offset of the plans topic from which plans of any age are kept to reproduce versions of chains.
// The oldest version determines it.
func (c *Client) plansFrom(ctx context.Context, versions []schemas.Place) (int64, error) {
	for _, place := range versions {
		v, err := c.manifest(ctx, place)
		if errors.As(err, new(*GoneError)) {
			continue // another process is removing it
		}
		if err != nil {
			return 0, err
		}
		if v.manifest.Plan.Chain != nil {
			return v.manifest.PlansFrom, nil
		}
	}
	return math.MaxInt64, nil
}

// RemoveVersion writes tombstones for the messages of a version, the manifest's first: a version is visible to subscribers
// while its manifest exists. Then it records the removal on the plans topic. It can be repeated after an interruption.
// Until then, copies by a second solver may be left, which form an incomplete version.
func (c *Client) RemoveVersion(ctx context.Context, place schemas.Place) error {
	if err := c.removeVersion(ctx, place); err != nil {
		return fmt.Errorf("remove version %d: %w", place.Version, err)
	}
	return nil
}

func (c *Client) removeVersion(ctx context.Context, place schemas.Place) error {
	tombstones, whole, err := c.tombstones(ctx, place.Run, place.From, place.To)
	if err == nil && !whole { // compaction has kept later copies of some messages: see version.readAll
		tombstones, _, err = c.tombstones(ctx, place.Run, 0, math.MaxInt64)
	}
	if err != nil {
		return err
	}
	if _, err := c.Log.Append(ctx, c.Topics.Versions, 0, tombstones...); err != nil {
		return err
	}
	removal := &schemas.Removal{Run: place.Run, Version: place.Version}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, removal.Message())
	return err
}

// tombstones returns tombstones for the messages of a run in a range of the versions topic, the manifest's first. whole
// reports whether the topic has a message at each offset of the range.
func (c *Client) tombstones(ctx context.Context, run string, from, to int64) (tombstones []wire.Message, whole bool, err error) {
	var manifest, others []wire.Message
	messages, there := int64(0), map[string]bool{}
	err = c.Remaining(ctx, c.Topics.Versions, 0, from, to, func(m Message) error {
		messages++
		switch {
		case m.Run() != run || m.Value == nil || there[m.Key]:
			return nil
		case m.Kind() == schemas.KindManifest:
			manifest = append(manifest, m.Tombstone())
		default:
			others = append(others, m.Tombstone())
		}
		there[m.Key] = true
		return nil
	})
	return append(manifest, others...), messages == to-from, err
}

// planAge is the retention of run ends on the plans topic.
const planAge = 24 * time.Hour

// oldPlans returns an offset of the plans topic before which all messages are older than planAge. If the client is alone,
// it ignores the age.
func (c *Client) oldPlans(ctx context.Context) (int64, error) {
	if c.Alone {
		return math.MaxInt64, nil
	}
	offsets, err := c.Log.Before(ctx, c.Topics.Plans, planAge)
	if err != nil {
		return 0, err
	}
	return offsets[0], nil
}

// sweep writes tombstones for obsolete messages of the plans topic before an offset, which the latest ledger covers, and
// then another ledger. If it is interrupted, a later sweep does the rest. Seals and removals of sources without messages
// on the examples topic are also removed, at any age: they affect no reader.
func (c *Client) sweep(ctx context.Context, l *Ledger, to int64) error {
	var bounds []coverage.Span
	if len(l.sources)+len(l.removedSeals) > 0 { // a pipeline that reads another's examples has no seals
		var err error
		if bounds, err = c.Log.Spans(ctx, TopicsOf(c.Topics.Name).Examples); err != nil {
			return err
		}
	}
	gone := map[string]wire.Message{} // tombstones by key
	expired := func(s *schemas.SourceSeal) bool {
		if s.Held(bounds) != schemas.HeldNot {
			return false
		}
		m := s.Message().Tombstone()
		gone[m.Key] = m
		return true
	}
	for _, id := range l.sources {
		l.seals[id] = slices.DeleteFunc(l.seals[id], expired)
	}
	l.removedSeals = slices.DeleteFunc(l.removedSeals, expired)
	state := l.state()
	state.Swept = max(l.swept, to)
	if err := c.writeTombstones(ctx, state, l, gone); err != nil {
		return err
	}
	if err := c.sweepVersions(ctx, state); err != nil {
		return err
	}
	messages, err := state.Messages()
	if err != nil {
		return err
	}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, messages...)
	return err
}

// sweepVersions writes tombstones for messages on the versions topic that belong to no version and are older than planAge:
// of runs cancelled after their versions were written, and of versions written again after their removal. It continues
// from the end of the last sweep, which is in the ledger.
func (c *Client) sweepVersions(ctx context.Context, state *schemas.Ledger) error {
	old, err := c.Log.Before(ctx, c.Topics.Versions, planAge)
	if err != nil {
		return err
	}
	counts, unfinished := map[string]bool{}, map[string]bool{}
	for _, place := range state.Versions {
		counts[place.Run] = true
	}
	for _, place := range state.Unfinished {
		unfinished[place.Run] = true
	}
	var tombstones []wire.Message
	from, swept := min(state.VersionsSwept, old[0]), old[0] // the topic may have been recreated
	err = c.Remaining(ctx, c.Topics.Versions, 0, from, swept, func(m Message) error {
		switch {
		case m.Offset >= swept || m.Value == nil || m.Run() == "" || counts[m.Run()]:
		case unfinished[m.Run()]:
			swept = m.Offset // the next sweep checks again
		default:
			tombstones = append(tombstones, m.Tombstone())
		}
		return nil
	})
	if err != nil {
		return err
	}
	state.VersionsSwept = swept
	_, err = c.Log.Append(ctx, c.Topics.Versions, 0, tombstones...)
	return err
}

// writeTombstones writes tombstones for the messages of the plans topic, from the end of the last sweep to state.Swept,
// that a ledger does not need, and the given tombstones, by key. A plan without an end would run again. So its tombstone
// precedes those of its ends, and the sweep stops at the end of a run whose plan has another copy after the latest ledger:
// readers of that ledger look for this end.
func (c *Client) writeTombstones(ctx context.Context, state *schemas.Ledger, l *Ledger, gone map[string]wire.Message) error {
	again := map[string]bool{}
	for _, p := range l.plans {
		again[p.place.Run] = l.ends[p.place.Run] != nil && p.place.To > l.covered
	}
	counts := map[string]bool{schemas.PinKey: true} // a pin after the ledger has the same key
	for _, place := range state.Unfinished {
		counts[place.Run] = true
	}
	for i := range state.Sources {
		counts[state.Sources[i].Message().Key] = true
	}
	for i := range state.Removed {
		counts[state.Removed[i].Message().Key] = true // including the key of the removal
	}
	var plans, others []wire.Message
	err := c.Remaining(ctx, c.Topics.Plans, 0, l.swept, state.Swept, func(m Message) error {
		switch {
		case m.Offset >= state.Swept:
		case m.Kind() == schemas.KindEnd && again[m.Run()]:
			state.Swept = m.Offset // the next sweep checks again
		case m.Value == nil || counts[m.Key] || m.Kind() == schemas.KindPlan && counts[m.Run()]:
		case m.Kind() == schemas.KindPlan:
			plans = append(plans, m.Tombstone())
		default:
			others = append(others, m.Tombstone())
			delete(gone, m.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(gone)) {
		if !counts[key] { // a later seal of the source may have the key, if the examples topic was recreated
			others = append(others, gone[key])
		}
	}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, append(plans, others...)...)
	return err
}
