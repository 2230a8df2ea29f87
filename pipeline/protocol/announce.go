package protocol

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// AnnounceVersions writes the ends of the runs whose versions are whole on the versions topic, if the plans topic knows
// of no version: it has lost what it said, and without these ends nobody would read the versions again. It returns the
// numbers of the versions.
func (c *Client) AnnounceVersions(ctx context.Context, l *Ledger) (numbers []int, err error) {
	if l.NextVersion() > 1 {
		return nil, nil
	}
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
		ends, numbers = append(ends, end.Message()), append(numbers, places[i].Version)
	}
	_, err = c.Log.Append(ctx, c.Topics.Plans, 0, ends...)
	return numbers, err
}

// findVersions returns where the versions topic has whole versions of runs that a ledger does not know, by their
// numbers. Of a removed version it has the manifest's tombstone.
func (c *Client) findVersions(ctx context.Context, l *Ledger) (places []schemas.Place, err error) {
	type found struct {
		schemas.Place
		keys []string // of the manifest's messages
	}
	all, order, removed := map[string]*found{}, []string{}, map[string]bool{}
	err = c.Remaining(ctx, c.Topics.Versions, 0, 0, math.MaxInt64, func(m Message) error {
		if removed[m.Key] = m.Value == nil; m.Value == nil || m.Run() == "" {
			return nil
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
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		v := all[id]
		if len(v.keys) == 0 || slices.ContainsFunc(v.keys, func(key string) bool { return removed[key] }) || l.Plan(id) != nil ||
			l.End(id) != nil {
			continue
		}
		m, _, err := c.ModelAt(ctx, v.Place, nil)
		if IsIncomplete(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		report, err := c.readUntil(ctx, v.Place, func(v *version) bool { return v.report != nil })
		if err != nil {
			return nil, err
		}
		v.Version = m.Manifest.Version
		v.Withheld = report.report != nil && report.report.Retrain != nil && !report.report.Retrain.Offered
		places = append(places, v.Place)
	}
	slices.SortStableFunc(places, func(a, b schemas.Place) int { return cmp.Compare(a.Version, b.Version) })
	return places, nil
}
