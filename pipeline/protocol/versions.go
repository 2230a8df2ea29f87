package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Finished is a finished version.
type Finished struct {
	schemas.Manifest
	Written time.Time // timestamp of the manifest, by its writer's clock
	Offered bool      // not withheld
	Pinned  bool
}

// Versions returns the finished versions by number, the newest last.
func (c *Client) Versions(ctx context.Context) (finished []Finished, err error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	pinned := l.Pinned()
	for _, place := range l.Versions() {
		v, err := c.manifest(ctx, place)
		if errors.As(err, new(*GoneError)) {
			continue // the version is being removed
		}
		if err != nil {
			return nil, err
		}
		finished = append(finished, Finished{*v.manifest, v.written, !place.Withheld, pinned != nil && pinned.Run == place.Run})
	}
	return finished, nil
}

// Latest refers to the pinned version, or, if none is pinned, to the offered version with the highest number.
const Latest = "latest"

// NoVersionError means that a version does not exist.
type NoVersionError struct {
	Want string // a number, a run, or [Latest]
	Have int    // number of versions
}

// Error includes the requested version and the number of versions.
func (e *NoVersionError) Error() string {
	switch {
	case e.Have == 0:
		return fmt.Sprintf("version %q: the pipeline has no finished version yet", e.Want)
	case e.Want == Latest:
		return fmt.Sprintf("version %q: none of the pipeline's %d versions is offered: name one by its number, or pin one", e.Want, e.Have)
	}
	return fmt.Sprintf("version %q: the pipeline has %d versions, but not this one", e.Want, e.Have)
}

// IsMissing reports whether an error means that a version does not exist, or is incomplete or damaged.
func IsMissing(err error) bool { return errors.As(err, new(*NoVersionError)) || IsIncomplete(err) }

// find returns what read returns of the place of a version, by number, run, or [Latest]. For [Latest], it skips versions that read
// finds incomplete: the newest complete version counts. The error may be a *[NoVersionError].
func find[T any](ctx context.Context, c *Client, want string, read func(schemas.Place) (T, error)) (found T, err error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return found, err
	}
	var incomplete error // error of the first incomplete version
	for place := range l.Wanted(want) {
		if found, err = read(place); want != Latest || !IsIncomplete(err) {
			return found, err
		}
		incomplete = cmp.Or(incomplete, err)
	}
	return found, cmp.Or[error](incomplete, &NoVersionError{want, len(l.versions)})
}

// Version returns the manifest of a version, by number, run, or [Latest]. The error may be a *[NoVersionError] or a
// *[GoneError].
func (c *Client) Version(ctx context.Context, want string) (*schemas.Manifest, error) {
	return find(ctx, c, want, func(place schemas.Place) (*schemas.Manifest, error) {
		v, err := c.manifest(ctx, place)
		if err != nil {
			return nil, err
		}
		return v.manifest, nil
	})
}

// Model reads a version as a model, by number, run, or [Latest]. The error may be a *[NoVersionError] or a *[GoneError].
func (c *Client) Model(ctx context.Context, want string) (*model.Model, error) {
	return find(ctx, c, want, func(place schemas.Place) (*model.Model, error) {
		m, _, err := c.ModelAt(ctx, place, nil)
		return m, err
	})
}

// ModelAt reads the version at a place as a model, with its timestamp. The model shares unchanged tensors with before;
// nil: none. The error may be a *[GoneError].
func (c *Client) ModelAt(ctx context.Context, place schemas.Place, before *model.Model) (m *model.Model, written time.Time, err error) {
	v, failed := c.readFrom(ctx, place, place.From, func(v *version) bool {
		m, err = v.model(before)
		return err == nil
	})
	if failed != nil {
		return nil, written, failed
	}
	return m, v.written, err
}

// Survey returns the survey's result of a version, by number, run, or [Latest]. The error may be a *[NoVersionError] or a
// *[GoneError].
func (c *Client) Survey(ctx context.Context, want string) (*statistics.SurveyResult, error) {
	return find(ctx, c, want, func(place schemas.Place) (*statistics.SurveyResult, error) {
		v, err := c.readFrom(ctx, place, place.From, func(v *version) bool { return v.records[v.manifest.Prepare] != nil })
		if err != nil {
			return nil, err
		}
		return v.survey()
	})
}

// Report returns the report of a version, by number, run, or [Latest]; nil if it has none. The error may be a *[NoVersionError] or
// a *[GoneError].
func (c *Client) Report(ctx context.Context, want string) (*schemas.Report, error) {
	return find(ctx, c, want, func(place schemas.Place) (*schemas.Report, error) {
		_, report, err := c.Described(ctx, place)
		return report, err
	})
}

// manifest reads the manifest of the version at a place.
func (c *Client) manifest(ctx context.Context, place schemas.Place) (*version, error) {
	return c.readFrom(ctx, place, place.Manifest, func(*version) bool { return true })
}

// maxReportChunks limits the messages read for a report. A report with the largest confusion matrix takes five.
const maxReportChunks = 16

// Described returns the manifest and the report of the version at a place. The report is nil if there is none. Described reads no
// weights. The error may be a *[GoneError].
func (c *Client) Described(ctx context.Context, place schemas.Place) (f Finished, report *schemas.Report, err error) {
	from := place.Manifest // the report was written just before the manifest, usually as one message
	err = c.Remaining(ctx, c.Topics.Versions, 0, place.Manifest-1, place.Manifest, func(m Message) error {
		if m.Run() == place.Run && m.Kind() == schemas.KindReport {
			from -= min(int64(m.Chunk())+1, maxReportChunks)
		}
		return nil
	})
	if err != nil {
		return f, nil, fmt.Errorf("read version %d: %w", place.Version, err)
	}
	v, err := c.readFrom(ctx, place, from, func(v *version) bool { return v.report != nil })
	if err != nil {
		return f, nil, err
	}
	return Finished{Manifest: *v.manifest, Written: v.written, Offered: !place.Withheld}, v.report, nil
}

// Remember caches the model of a chain's newest version, for the run that continues from it.
func (c *Client) Remember(m *model.Model) {
	if c.newest != nil {
		c.newest.Store(m)
	}
}

// Newest returns the last remembered model; nil if there is none.
func (c *Client) Newest() *model.Model {
	if c.newest == nil {
		return nil
	}
	return c.newest.Load()
}

// ModelOf returns the version that a plan starts from, from memory if it is the newest of a chain.
func (c *Client) ModelOf(ctx context.Context, warm *schemas.Warm) (*model.Model, error) {
	if m := c.Newest(); m != nil && m.Manifest.Run == warm.Run && m.Manifest.Digest() == warm.Manifest {
		return m, nil
	}
	return c.Model(ctx, warm.Run)
}
