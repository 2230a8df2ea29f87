package protocol

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
		v.Version, v.Withheld = m.Manifest.Version, report != nil && report.Withheld()
		places = append(places, v.Place)
	}
	slices.SortStableFunc(places, func(a, b schemas.Place) int { return cmp.Compare(a.Version, b.Version) })
	return places, nil
}
