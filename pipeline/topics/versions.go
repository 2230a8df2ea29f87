package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/protocol"
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

// VersionsError means that [RemoveVersions] has removed nothing because of some of the versions.
type VersionsError struct {
	Topic   string         // versions topic
	Unknown []string       // versions that do not exist
	Latest  []int          // numbers of versions that are the latest for subscribers, now or when none is pinned
	Needed  map[int]string // by number, the unfinished runs whose plans refer to them
}

// Error returns a sentence for each of the versions.
func (e *VersionsError) Error() string {
	var parts []string
	for _, text := range e.Unknown {
		parts = append(parts, fmt.Sprintf("no version %q on %s; see weights list", text, e.Topic))
	}
	for _, number := range e.Latest {
		parts = append(parts, fmt.Sprintf("version %d is pinned, or the newest offered version: --even-latest removes it too", number))
	}
	for _, number := range slices.Sorted(maps.Keys(e.Needed)) {
		parts = append(parts, fmt.Sprintf("version %d: the unfinished run %s needs it: let it end, or cancel it", number, e.Needed[number]))
	}
	return strings.Join(parts, "; ") + ". No version is removed"
}

// RemoveVersions removes versions, given as for [Pin], and returns their numbers. Unless evenLatest is set, it refuses to
// remove the latest version for subscribers, now or when none is pinned. It also refuses versions that the plan of an
// unfinished run refers to. Then, or if one is unknown, the error is a *[VersionsError], and none is removed.
func RemoveVersions(ctx context.Context, p *Pipeline, versions []string, evenLatest bool) (removed []int, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	places, err := removable(p, l, versions, evenLatest)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if err := p.RemoveVersion(ctx, place); err != nil {
			return removed, err
		}
		removed = append(removed, place.Version)
	}
	return removed, nil
}

// removable returns the places of versions, each once.
func removable(p *Pipeline, l *protocol.Ledger, versions []string, evenLatest bool) (places []schemas.Place, err error) {
	wrong := &VersionsError{Topic: p.Topics.Versions, Needed: map[int]string{}}
	for _, version := range versions {
		place, err := l.Find(version)
		if err != nil {
			wrong.Unknown = append(wrong.Unknown, version)
			continue
		}
		if slices.Contains(places, place) {
			continue
		}
		places = append(places, place)
		if !evenLatest && l.ForSubscribers(place) {
			wrong.Latest = append(wrong.Latest, place.Version)
		}
		if id := l.NamedBy(place); id != "" {
			wrong.Needed[place.Version] = id
		}
	}
	if len(wrong.Unknown)+len(wrong.Latest)+len(wrong.Needed) > 0 {
		return nil, wrong
	}
	return places, nil
}
