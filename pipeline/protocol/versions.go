package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"

	"github.com/apache/arrow/go/v17/arrow/memory"
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

// find returns the result of read for the place of a version, by number, run, or [Latest]. For [Latest], it skips versions that
// read finds incomplete: the newest complete version counts. The error may be a *[NoVersionError].
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
		m, _, err := c.ModelAt(ctx, place)
		return m, err
	})
}

// ModelAt reads the version at a place as a model, with its timestamp. The error may be a *[GoneError].
func (c *Client) ModelAt(ctx context.Context, place schemas.Place) (m *model.Model, written time.Time, err error) {
	v, failed := c.readFrom(ctx, place, place.From, func(v *version) bool {
		m, err = v.model()
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

// Report returns the report of a version, by number, run, or [Latest]. The error may be a *[NoVersionError] or a *[GoneError]:
// the topic may have lost the report alone.
func (c *Client) Report(ctx context.Context, want string) (*schemas.Report, error) {
	return find(ctx, c, want, func(place schemas.Place) (*schemas.Report, error) {
		_, report, err := c.Described(ctx, place)
		if err == nil && report == nil {
			err = &GoneError{place.Version, "its report is", c.Topics.Versions}
		}
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
	for m, err := range c.Remaining(ctx, c.Topics.Versions, 0, place.Manifest-1, place.Manifest) {
		if err != nil {
			return f, nil, fmt.Errorf("read version %d: %w", place.Version, err)
		}
		if m.Run() == place.Run && m.Kind() == schemas.KindReport {
			from -= min(int64(m.Chunk())+1, maxReportChunks)
		}
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

// version collects the records of a version.
type version struct {
	topic     string // versions topic
	mem       memory.Allocator
	place     schemas.Place
	documents wire.Documents
	collector wire.Collector[float32]
	manifest  *schemas.Manifest                     // nil: not read yet
	written   time.Time                             // timestamp of the manifest
	report    *schemas.Report                       // nil: not read yet, or there is none
	records   map[wire.Digest]*wire.Record[float32] // by digest
}

// readFrom reads the version at a place, from an offset of that place on. If the manifest is missing, or enough returns false,
// it reads the whole topic: if a message was written again, by a second solver or by a client that got no response, compaction
// keeps the last copy, which may be after the version's place. The error is a *[GoneError] if there is no manifest.
func (c *Client) readFrom(ctx context.Context, place schemas.Place, from int64, enough func(*version) bool) (*version, error) {
	v := &version{topic: c.Topics.Versions, mem: c.Memory, place: place, records: map[wire.Digest]*wire.Record[float32]{}}
	for _, span := range []coverage.Span{{From: from, To: place.To}, {To: math.MaxInt64}} {
		for m, err := range c.Remaining(ctx, v.topic, 0, span.From, span.To) {
			if err != nil {
				return nil, fmt.Errorf("read version %d: %w", place.Version, err)
			}
			if m.Run() == place.Run && m.Value != nil {
				v.apply(m)
			}
		}
		if v.manifest != nil && enough(v) {
			return v, nil
		}
	}
	if v.manifest == nil {
		return nil, v.gone("its manifest is")
	}
	return v, nil
}

// apply adds a message of the version. It skips damaged ones.
func (v *version) apply(m Message) {
	switch m.Kind() {
	case schemas.KindManifest:
		if whole, ok, err := v.documents.Add(m.Message); err == nil && ok {
			if manifest, err := DecodeManifest(whole); err == nil {
				v.manifest, v.written = manifest, m.Time
			}
		}
	case schemas.KindReport:
		if whole, ok, err := v.documents.Add(m.Message); err == nil && ok && v.report == nil {
			v.report, _ = schemas.DecodeJSON[schemas.Report](whole) // a damaged report counts as none
		}
	default:
		if r, err := v.collector.Add(m.Message, v.mem); err == nil && r != nil {
			v.records[m.Digest()] = r
		}
	}
}

// GoneError means that a part of a version is no longer on the versions topic.
type GoneError struct {
	Version int
	What    string // missing part, with its verb: "its manifest is"
	Topic   string
}

// Error includes the missing part.
func (e *GoneError) Error() string {
	return fmt.Sprintf("version %d: %s no longer on %s", e.Version, e.What, e.Topic)
}

// IsIncomplete reports whether an error means that a version is incomplete or damaged.
func IsIncomplete(err error) bool {
	return errors.As(err, new(*GoneError)) || errors.Is(err, wire.ErrDamaged)
}

// gone returns the error for a missing part of the version.
func (v *version) gone(what string) error {
	return &GoneError{v.place.Version, what, v.topic}
}

// survey returns the survey's result of the version.
func (v *version) survey() (*statistics.SurveyResult, error) {
	prepare := v.records[v.manifest.Prepare]
	if prepare == nil {
		return nil, v.gone("the survey's result is")
	}
	return wire.Read[statistics.SurveyResult](prepare)
}

// model returns the version as a model.
func (v *version) model() (*model.Model, error) {
	survey, err := v.survey()
	if err != nil {
		return nil, err
	}
	weights := make([][]*schemas.Weights, len(v.manifest.Blocks))
	for t, block := range v.manifest.Blocks {
		if v.records[block.Digest] == nil {
			return nil, v.gone(fmt.Sprintf("the weights of stage %d are", t))
		}
		// A learnt link also needs the records before the final one. The parent of each is the previous record.
		for r := v.records[block.Digest]; r != nil && r.Kind == schemas.KindWeights && r.Stage == t; r = v.records[r.Parent] {
			w, err := wire.Read[schemas.Weights](r)
			if err != nil {
				return nil, err
			}
			weights[t] = append(weights[t], w)
		}
		if block.Structure != "" {
			r := v.records[block.Structure]
			if r == nil || r.Kind != schemas.KindStructure {
				return nil, v.gone(fmt.Sprintf("the trees of stage %d are", t))
			}
			w, err := wire.Read[schemas.Weights](r)
			if err != nil {
				return nil, err
			}
			weights[t] = append(weights[t], w)
		}
		slices.Reverse(weights[t])
	}
	m, err := model.New(v.manifest, survey.Preparation, weights)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.place.Version, err)
	}
	if digest := m.Digest(); digest != v.manifest.WeightsDigest {
		return nil, fmt.Errorf("version %d: its weights have digest %s, its manifest says %s: %w", v.place.Version, digest.Short(),
			v.manifest.WeightsDigest.Short(), wire.ErrDamaged)
	}
	return m, nil
}

// PublishVersion writes a version to the versions topic: the records of its model, then the report, which it calls
// afterwards (nil: none), then the manifest. It returns their place. The version is visible once the end of the run names
// it.
func (c *Client) PublishVersion(ctx context.Context, manifest *schemas.Manifest, records []*wire.Record[float32],
	report func() *schemas.Report) (*schemas.Place, error) {
	place := &schemas.Place{Run: manifest.Run, Version: manifest.Version, PlansFrom: manifest.PlansFrom, From: math.MaxInt64}
	add := func(messages []wire.Message, err error) error {
		if err == nil {
			place.Manifest, err = c.Log.Append(ctx, c.Topics.Versions, 0, messages...)
			place.From = min(place.From, place.Manifest)
		}
		return err
	}
	for _, r := range records {
		for m, err := range r.EachWithin(c.Chunk, c.Memory) {
			if err := add([]wire.Message{m}, err); err != nil {
				return nil, err
			}
		}
	}
	if report != nil {
		if err := add(report().Messages()); err != nil {
			return nil, err
		}
	}
	err := add(manifest.Messages())
	if err == nil { // other writers may have written in between
		_, place.To, err = c.Log.Bounds(ctx, c.Topics.Versions, 0)
	}
	if err != nil {
		return nil, err
	}
	return place, nil
}

// Model returns the model of a chain that has the survey's result and all final weights.
func (c *Chain) Model(manifest *schemas.Manifest) (*model.Model, error) {
	weights := make([][]*schemas.Weights, len(c.Plan.Stages))
	for t := range weights {
		weights[t] = c.weightsOf(t)
		if trees := c.structure(t); trees != nil && c.Plan.Update() != nil { // those of the previous version
			weights[t] = append([]*schemas.Weights{trees}, weights[t]...)
		}
	}
	if u := c.Plan.Update(); u != nil && u.Sparse {
		for t := range weights {
			s, err := c.Stage(t)
			if err != nil {
				return nil, err
			}
			fitted, err := c.Fitted(s, t)
			if err != nil {
				return nil, err
			}
			weights[t] = []*schemas.Weights{c.whole(t, fitted.W.Data)}
		}
	}
	return model.New(manifest, c.Survey.Preparation, weights)
}

// Records returns the records of a complete chain that its model needs: the survey's result, trees, and the final weights
// of each stage, with the earlier ones if the link is learnt.
func (c *Chain) Records(m *model.Model) []*wire.Record[float32] {
	records := []*wire.Record[float32]{wire.RecordOf[float32](c.Survey)}
	for t := range c.Plan.Stages {
		if w := c.structure(t); w != nil {
			records = append(records, wire.RecordOf[float32](w))
		}
	}
	for i, w := range c.weights {
		if u := c.Plan.Update(); u != nil && u.Sparse {
			if w.Final != nil {
				records = append(records, wire.RecordOf[float32](c.whole(w.Stage, m.Weights(w.Stage))))
			}
			continue
		}
		last := i+1 == len(c.weights) || c.weights[i+1].Stage != w.Stage
		if w.Kind == schemas.KindWeights && (last || link.Named(c.Plan.Stages[w.Stage].Link).Learnt) {
			records = append(records, wire.RecordOf[float32](w))
		}
	}
	return records
}

// Block returns a stage's weights in a version, and their digest. The weights of an update on sparse rows cover few
// columns; a version has them in full.
func (c *Chain) Block(stage int, m *model.Model) (*schemas.Weights, wire.Digest) {
	final, digest := c.Final(stage)
	if u := c.Plan.Update(); u != nil && u.Sparse {
		final = c.whole(stage, m.Weights(stage))
		digest = wire.RecordOf[float32](final).Digest()
	}
	return final, digest
}

// whole returns the full final weights of a stage of an update on sparse rows. It is a record of its own, whose parent has
// the weights that the update changed.
func (c *Chain) whole(stage int, w []float32) *schemas.Weights {
	final, digest := c.Final(stage)
	all, k := *final, c.Prepared.Labels.Len()
	all.Visit, all.Parent = final.Visit+1, digest
	all.Tensors = wire.Tensors[float32]{wire.Matrix(statistics.TensorW, len(w)/k, k, w)}
	return &all
}

// Structure returns the digest of the record of a stage's trees, among [Chain.Records]; "" if the stage has none.
func (c *Chain) Structure(stage int) wire.Digest {
	if w := c.structure(stage); w != nil {
		return wire.RecordOf[float32](w).Digest()
	}
	return ""
}

// Trees returns the digest of a stage's trees, regardless of the run that has grown them; "" if it has none, or none yet.
func (c *Chain) Trees(stage int) wire.Digest {
	if w := c.structure(stage); w != nil {
		return schemas.WeightsDigest(w.Tensors)
	}
	return ""
}
