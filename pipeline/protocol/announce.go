package protocol

import (
	"cmp"
	"context"
	"maps"
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

// findVersions returns the places of complete versions whose runs the ledger does not know, by number. A removed version has no manifest.
func (c *Client) findVersions(ctx context.Context, l *Ledger) (places []schemas.Place, err error) {
	from := int64(0)
	for _, known := range l.Versions() {
		from = max(from, known.To)
	}
	there := map[string]Message{} // by key
	err = c.Remaining(ctx, c.Topics.Versions, 0, from, math.MaxInt64, func(m Message) error {
		if m.Value == nil || m.Run() == "" {
			delete(there, m.Key)
			return nil
		}
		m.Value = nil
		there[m.Key] = m
		return nil
	})
	if err != nil {
		return nil, err
	}
	runs := map[string]*schemas.Place{}
	for _, m := range there {
		p := runs[m.Run()]
		if p == nil {
			p = &schemas.Place{Run: m.Run(), From: m.Offset, Manifest: math.MaxInt64}
			runs[m.Run()] = p
		}
		if p.From, p.To = min(p.From, m.Offset), max(p.To, m.Offset+1); m.Kind() == schemas.KindManifest {
			p.Manifest = min(p.Manifest, m.Offset)
		}
	}
	inOrder := slices.SortedFunc(maps.Values(runs), func(a, b *schemas.Place) int { return cmp.Compare(a.From, b.From) })
	for _, place := range inOrder {
		if place.Manifest == math.MaxInt64 || l.Plan(place.Run) != nil || l.End(place.Run) != nil {
			continue
		}
		m, _, err := c.ModelAt(ctx, *place, nil)
		if IsIncomplete(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_, report, err := c.Described(ctx, *place)
		if err != nil {
			return nil, err
		}
		place.Version, place.Withheld = m.Manifest.Version, report != nil && report.Withheld()
		places = append(places, *place)
	}
	slices.SortStableFunc(places, func(a, b schemas.Place) int { return cmp.Compare(a.Version, b.Version) })
	return places, nil
}
