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

// Prune writes tombstones for all versions but the newest keep, and for messages of the plans topic that no longer count and are older
// than a day. Where the client is alone, they need not be old. Whatever keep is, it keeps the version that is offered, the one that is
// pinned, those that a chain may go on from, those that unfinished runs name, and the plans from which the versions of a chain can be
// made again. If it is interrupted, the next Prune does the rest.
func (c *Client) Prune(ctx context.Context, keep int) error {
	old, err := c.oldPlans(ctx) // before the ledger is read: it then has every copy of a plan whose end is old
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
		if i >= len(versions)-max(keep, 1) || l.ForSubscribers(place) || l.GoneOnFrom(place) || l.NamedBy(place) != "" {
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

// plansFrom returns an offset of the plans topic from which all plans stay, however old they are, so that versions of chains can be made
// again. The oldest version needs the most.
func (c *Client) plansFrom(ctx context.Context, versions []schemas.Place) (int64, error) {
	for _, place := range versions {
		v, err := c.manifest(ctx, place)
		if errors.As(err, new(*GoneError)) {
			continue // another process removes it
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

// RemoveVersion writes tombstones for the messages of a version, the manifest's first: a version counts for subscribers while its
// manifest is there. Then it says on the plans topic that the version was removed. If it is interrupted, it can be repeated; until then the
// copies of a second solver may be left, of which the version is incomplete.
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

// tombstones returns tombstones for the messages of a run in a range of the versions topic, the manifest's first. whole reports
// whether the topic has a message at each offset of the range.
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

// planAge is how long the plans topic says how a run ended.
const planAge = 24 * time.Hour

// oldPlans returns an offset of the plans topic before which all messages are older than planAge. Where the client is alone, messages
// of any age count as old.
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

// sweep writes tombstones for what does not count on the plans topic before an offset, which the latest ledger covers; and then another
// ledger. So if it is interrupted, what it has not done is done later. Seals and removals of sources of which the examples topic has
// nothing left go too, however old they are: no reader does anything else without them.
func (c *Client) sweep(ctx context.Context, l *Ledger, to int64) error {
	var bounds []coverage.Span
	if len(l.sources)+len(l.removedSeals) > 0 { // a pipeline that reads the examples of another has no seals
		var err error
		if bounds, err = c.Log.Spans(ctx, TopicsOf(c.Topics.Name).Examples); err != nil {
			return err
		}
	}
	gone := map[string]wire.Message{} // tombstones by their keys
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

// sweepVersions writes tombstones for the messages on the versions topic that are of no version and older than planAge: of runs that
// were cancelled after their versions were written, and of versions that were written again after they were removed. It goes on where
// the ledger says that the last sweep ended.
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
	from, swept := min(state.VersionsSwept, old[0]), old[0] // the topic may be made anew
	err = c.Remaining(ctx, c.Topics.Versions, 0, from, swept, func(m Message) error {
		switch {
		case m.Offset >= swept || m.Value == nil || m.Run() == "" || counts[m.Run()]:
		case unfinished[m.Run()]:
			swept = m.Offset // the next sweep looks again
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

// writeTombstones writes tombstones for the messages of the plans topic, from where the last sweep ended to what is swept, that do not
// count by a ledger; and the tombstones gone, which are given by their keys. A plan without an end would run again: so its tombstone
// comes before those of its ends, and the sweep ends at the end of a run whose plan comes once more after the latest ledger. Who begins
// with that ledger looks for this end.
func (c *Client) writeTombstones(ctx context.Context, state *schemas.Ledger, l *Ledger, gone map[string]wire.Message) error {
	again := map[string]bool{}
	for _, p := range l.plans {
		again[p.place.Run] = l.ends[p.place.Run] != nil && p.place.To > l.covered
	}
	counts := map[string]bool{schemas.PinKey: true} // a pin that comes after the ledger has this key too
	for _, place := range state.Unfinished {
		counts[place.Run] = true
	}
	for i := range state.Sources {
		counts[state.Sources[i].Message().Key] = true
	}
	for i := range state.Removed {
		counts[state.Removed[i].Message().Key] = true // the key of the removal too
	}
	var plans, others []wire.Message
	err := c.Remaining(ctx, c.Topics.Plans, 0, l.swept, state.Swept, func(m Message) error {
		switch {
		case m.Offset >= state.Swept:
		case m.Kind() == schemas.KindEnd && again[m.Run()]:
			state.Swept = m.Offset // the next sweep looks again
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
		if !counts[key] { // another seal of the source may have the key, if the examples topic was made anew
			others = append(others, gone[key])
		}
	}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, append(plans, others...)...)
	return err
}
