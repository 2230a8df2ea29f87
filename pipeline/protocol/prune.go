package protocol

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Prune writes tombstones for all versions except the newest keep, and, if there are many ended runs, for messages of the
// plans topic that no longer count and are older than a day, or of any age if the client is alone. It always keeps the
// offered and the pinned version, versions from which a chain may continue, versions that unfinished runs refer to, and the
// plans needed to reproduce the versions of a chain. After an interruption, the next Prune does the rest.
func (c *Client) Prune(ctx context.Context, keep int) error {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return err
	}
	versions := l.Versions()
	for i, place := range versions {
		if i >= len(versions)-max(keep, 1) || l.ForSubscribers(place) || l.goneOnFrom(place) || l.NamedBy(place) != "" {
			continue
		}
		if err := c.RemoveVersion(ctx, place); err != nil {
			return err
		}
	}
	ends := 0
	for _, r := range l.runs {
		if r.end != nil {
			ends++
		}
	}
	if ends <= 2*c.keepRuns() {
		return nil
	}
	if err := c.sweep(ctx); err != nil {
		return fmt.Errorf("remove what no longer counts from %s: %w", c.Topics.Plans, err)
	}
	return nil
}

// RemoveVersion writes tombstones for the messages of a version, the manifest's first: a version is visible to subscribers
// while its manifest exists. Then it records the removal on the plans topic. It can be repeated after an interruption.
// Until then, copies by a second solver may be left, which form an incomplete version.
func (c *Client) RemoveVersion(ctx context.Context, place schemas.Place) error {
	tombstones, whole, err := c.tombstones(ctx, place.Run, place.From, place.To)
	if err == nil && !whole { // compaction has kept later copies of some messages: see readFrom
		tombstones, _, err = c.tombstones(ctx, place.Run, 0, math.MaxInt64)
	}
	if err == nil {
		_, err = c.Log.Append(ctx, c.Topics.Versions, 0, tombstones...)
	}
	if err == nil {
		removal := &schemas.Removal{Run: place.Run, Version: place.Version}
		_, err = c.Log.Append(ctx, c.Topics.Plans, 0, removal.Message())
	}
	if err != nil {
		return fmt.Errorf("remove version %d: %w", place.Version, err)
	}
	return nil
}

// tombstones returns tombstones for the messages of a run in a range of the versions topic, the manifest's first. whole
// reports whether the topic has a message at each offset of the range.
func (c *Client) tombstones(ctx context.Context, run string, from, to int64) (tombstones []wire.Message, whole bool, err error) {
	var manifest, others []wire.Message
	messages, there := int64(0), map[string]bool{}
	for m, err := range c.Remaining(ctx, c.Topics.Versions, 0, from, to) {
		if err != nil {
			return nil, false, err
		}
		messages++
		switch {
		case m.Run() != run || m.Value == nil || there[m.Key]:
			continue
		case m.Kind() == schemas.KindManifest:
			manifest = append(manifest, m.Tombstone())
		default:
			others = append(others, m.Tombstone())
		}
		there[m.Key] = true
	}
	return append(manifest, others...), messages == to-from, nil
}

// planAge is the retention of the plans and the ends of runs. No client writes a message again after this time.
const planAge = 24 * time.Hour

// sweep writes tombstones for old messages that a ledger does not need. A plan without an end would run again, so its
// tombstone precedes those of its ends.
//
// The ledger is read after the ages of messages. So a process that was suspended in between treats only messages of its
// ledger as old, not a version that another process has made meanwhile.
func (c *Client) sweep(ctx context.Context) error {
	oldVersions, err := c.Log.Before(ctx, c.Topics.Versions, planAge)
	if err != nil {
		return err
	}
	old := int64(math.MaxInt64) // no other process reads the topic of a client that is alone
	if !c.Alone {
		offsets, err := c.Log.Before(ctx, c.Topics.Plans, planAge)
		if err != nil {
			return err
		}
		old = offsets[0]
	}
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return err
	}
	if err := c.sweepVersions(ctx, l, oldVersions[0]); err != nil {
		return err
	}
	counts, keys, err := c.counting(ctx, l)
	if err != nil {
		return err
	}
	newest := map[string]int64{} // offsets of the last messages of runs
	for _, m := range l.lines {
		newest[m.Run()] = max(newest[m.Run()], m.Offset)
	}
	var plans, others []wire.Message
	for _, key := range slices.Sorted(maps.Keys(l.lines)) {
		m, run := l.lines[key], l.lines[key].Run()
		switch {
		case key == "" || keys[key] || run != "" && counts[run]:
		case m.Offset >= old || run != "" && newest[run] >= old:
		case m.Kind() == schemas.KindPlan:
			plans = append(plans, wire.Message{Key: key})
		default:
			others = append(others, wire.Message{Key: key})
		}
	}
	_, err = c.Log.Append(ctx, l.topic, 0, append(plans, others...)...)
	return err
}

// counting returns the runs whose messages count, and the keys of other messages that count: those of unfinished runs, of the last ended
// runs, of versions, of runs with which the chain continues, of ends that name sources that lack messages, and seals and removals of
// sources with messages on the examples topic. Plans of any age count from which a version of a chain can be reproduced: the oldest version
// determines them.
func (c *Client) counting(ctx context.Context, l *Ledger) (runs, keys map[string]bool, err error) {
	runs, keys = map[string]bool{l.removed[l.highest]: true}, map[string]bool{schemas.PinKey: true} // the number is not used again
	from := int64(math.MaxInt64)
	for _, place := range slices.Backward(l.versions) {
		if runs[place.Run] = true; l.Plan(place.Run) != nil && l.Plan(place.Run).Chain != nil {
			from = place.PlansFrom
		}
	}
	if l.chained != nil {
		runs[l.chained.Run], runs[l.chained.Parent] = true, true
	}
	last := c.keepRuns()
	for _, r := range slices.Backward(l.planned) {
		ended := r.end != nil && !r.overtaken
		if ended {
			last--
		}
		if !ended || last >= 0 || r.plan.Chain != nil && r.offset >= from {
			runs[r.id] = true
		}
	}
	for id, r := range l.runs {
		if r.end != nil && r.end.Source != "" {
			runs[id] = true
		}
	}
	for _, d := range l.divisions {
		keys[d.Message().Key] = true
	}
	var bounds []coverage.Span
	seals := slices.Concat(l.seals, l.gone)
	if len(seals) > 0 { // a pipeline that reads another's examples has no seals
		if bounds, err = c.Log.Spans(ctx, TopicsOf(c.Topics.Name).Examples); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range seals {
		keys[s.Message().Key] = s.Held(bounds) != schemas.HeldNot
	}
	return runs, keys, nil
}

// sweepVersions writes tombstones for messages on the versions topic that belong to no version and are before an offset:
// of runs cancelled after their versions were written, and of versions written again after their removal. It skips the
// offsets that this process has swept before.
func (c *Client) sweepVersions(ctx context.Context, l *Ledger, to int64) error {
	from := int64(0)
	if c.swept != nil {
		from = min(c.swept.Load(), to) // the topic may have been recreated
	}
	counts, unfinished := map[string]bool{}, map[string]bool{}
	for _, place := range l.versions {
		counts[place.Run] = true
	}
	for run := range l.Unfinished() {
		unfinished[run] = true
	}
	var tombstones []wire.Message
	for m, err := range c.Remaining(ctx, c.Topics.Versions, 0, from, to) {
		switch {
		case err != nil:
			return err
		case m.Offset >= to || m.Value == nil || m.Run() == "" || counts[m.Run()]:
		case unfinished[m.Run()]:
			to = m.Offset // the next sweep checks again
		default:
			tombstones = append(tombstones, m.Tombstone())
		}
	}
	_, err := c.Log.Append(ctx, c.Topics.Versions, 0, tombstones...)
	if err == nil && c.swept != nil {
		c.swept.Store(to)
	}
	return err
}

// AnnounceVersions recovers versions whose ends the plans topic has lost: it writes the ends of the runs that have complete
// versions on the versions topic after the known ones, so that readers find these again. It returns the version numbers.
func (c *Client) AnnounceVersions(ctx context.Context, l *Ledger) (numbers []string, err error) {
	places, err := c.findVersions(ctx, l)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	since, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}
	var ends []wire.Message
	for i := range places {
		end := schemas.End{Run: places[i].Run, State: schemas.Done, Version: &places[i], Since: since, Attempt: c.Fresh()}
		ends, numbers = append(ends, end.Message()), append(numbers, strconv.Itoa(places[i].Version))
	}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, ends...)
	return numbers, err
}

// findVersions returns the places of complete versions whose runs the ledger does not know, by number. A removed version
// is recognized by the tombstone of its manifest.
func (c *Client) findVersions(ctx context.Context, l *Ledger) (places []schemas.Place, err error) {
	type found struct {
		schemas.Place
		keys []string // keys of the manifest's messages
	}
	all, order, removed, from := map[string]*found{}, []string{}, map[string]bool{}, int64(0)
	for _, known := range l.Versions() {
		from = max(from, known.To)
	}
	for m, err := range c.Remaining(ctx, c.Topics.Versions, 0, from, math.MaxInt64) {
		if err != nil {
			return nil, err
		}
		if removed[m.Key] = m.Value == nil; m.Value == nil || m.Run() == "" {
			continue
		}
		v := all[m.Run()]
		if v == nil {
			v = &found{Place: schemas.Place{Run: m.Run(), From: m.Offset}}
			all[m.Run()], order = v, append(order, m.Run())
		}
		if v.To = m.Offset + 1; m.Kind() == schemas.KindManifest {
			if len(v.keys) == 0 {
				v.Manifest = m.Offset
			}
			v.keys = append(v.keys, m.Key)
		}
	}
	for _, id := range order {
		v := all[id]
		if len(v.keys) == 0 || slices.ContainsFunc(v.keys, func(key string) bool { return removed[key] }) || l.Plan(id) != nil ||
			l.End(id) != nil {
			continue
		}
		m, _, err := c.ModelAt(ctx, v.Place)
		if IsIncomplete(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_, report, err := c.Described(ctx, v.Place)
		if err != nil {
			return nil, err
		}
		v.Version, v.PlansFrom, v.Withheld = m.Manifest.Version, m.Manifest.PlansFrom, report != nil && report.Withheld()
		places = append(places, v.Place)
	}
	slices.SortStableFunc(places, func(a, b schemas.Place) int { return cmp.Compare(a.Version, b.Version) })
	return places, nil
}
