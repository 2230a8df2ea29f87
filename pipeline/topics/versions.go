package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Pin pins a version, by number, run, or [protocol.Latest]: it is the latest for subscribers, until another one is pinned
// or [Unpin] is called. Training ignores pins. Pin returns the number of the version. The error may be a
// *[protocol.NoVersionError].
func Pin(ctx context.Context, p *Pipeline, version string) (pinned int, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return 0, err
	}
	place, err := l.Find(version)
	if err != nil {
		return 0, err
	}
	if before := l.Pinned(); before != nil && before.Run == place.Run {
		return place.Version, nil
	}
	if err := writePin(ctx, p, schemas.Pin{Run: place.Run, Version: place.Version}); err != nil {
		return 0, fmt.Errorf("pin version %d: %w", place.Version, err)
	}
	return place.Version, nil
}

// Unpin makes the offered version with the highest number the latest again. It returns the numbers of the version that was
// pinned, and of the latest one for subscribers; 0: none.
func Unpin(ctx context.Context, p *Pipeline) (before, latest int, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return 0, 0, err
	}
	if pinned := l.Pinned(); pinned != nil {
		before = pinned.Version
		if err := writePin(ctx, p, schemas.Pin{}); err != nil {
			return 0, 0, fmt.Errorf("unpin version %d: %w", before, err)
		}
	}
	if offered := l.Offered(); offered != nil {
		latest = offered.Version
	}
	return before, latest, nil
}

func writePin(ctx context.Context, p *Pipeline, pin schemas.Pin) error {
	_, err := p.Log.Append(ctx, p.Topics.Plans, 0, pin.Message())
	return err
}

// RefusedError means that a command refuses its arguments, and changes nothing.
type RefusedError struct {
	Reasons []string
	Nothing string // what the command has not done: "No version is removed"
}

// Error returns a sentence for each reason.
func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "; ") + ". " + e.Nothing }

// Add adds a reason.
func (e *RefusedError) Add(format string, values ...any) {
	e.Reasons = append(e.Reasons, fmt.Sprintf(format, values...))
}

// RemoveVersions removes versions, given as for [Pin], and returns their numbers. Unless evenLatest is set, it refuses to
// remove the latest version for subscribers, now or when none is pinned. It also refuses versions that the plan of an
// unfinished run refers to. Then, or if one is unknown, the error is a *[RefusedError], and none is removed.
func RemoveVersions(ctx context.Context, p *Pipeline, versions []string, evenLatest bool) (removed []int, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	var places []schemas.Place
	wrong := &RefusedError{Nothing: "No version is removed"}
	for _, version := range versions {
		place, err := l.Find(version)
		switch id := l.NamedBy(place); {
		case err != nil:
			wrong.Add("no version %q on %s; see weights list", version, p.Topics.Versions)
			continue
		case slices.Contains(places, place):
			continue
		case !evenLatest && l.ForSubscribers(place):
			wrong.Add("version %d is pinned, or the newest offered version: --even-latest removes it too", place.Version)
		case id != "":
			wrong.Add("version %d: the unfinished run %s needs it: let it end, or cancel it", place.Version, id)
		}
		places = append(places, place)
	}
	if len(wrong.Reasons) > 0 {
		return nil, wrong
	}
	for _, place := range places {
		if err := p.RemoveVersion(ctx, place); err != nil {
			return removed, err
		}
		removed = append(removed, place.Version)
	}
	return removed, nil
}
