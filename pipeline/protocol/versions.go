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
	"github.com/stagewise/stagewise/pipeline/protocol/codec"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Finished is a finished version.
type Finished struct {
	schemas.Manifest
	Written time.Time // when the manifest was written, by the clock of who wrote it
	Offered bool      // it is not withheld
	Pinned  bool
}

// Versions returns the finished versions by version number, the newest last.
func (c *Client) Versions(ctx context.Context) (finished []Finished, err error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	pinned := l.Pinned()
	for _, place := range l.Versions() {
		v, err := c.manifest(ctx, place)
		if errors.As(err, new(*GoneError)) {
			continue // it is being removed
		}
		if err != nil {
			return nil, err
		}
		finished = append(finished, Finished{*v.manifest, v.written, !place.Withheld, pinned != nil && pinned.Run == place.Run})
	}
	return finished, nil
}

// Latest is the name of the version that is pinned, or, if none is, of the offered version with the highest number.
const Latest = "latest"

// NoVersionError means that a version does not exist.
type NoVersionError struct {
	Want string // a number, a run, or [Latest]
	Have int    // how many versions there are
}

// Error returns the version that was asked for, and how many there are.
func (e *NoVersionError) Error() string {
	switch {
	case e.Have == 0:
		return fmt.Sprintf("version %q: the pipeline has no finished version yet", e.Want)
	case e.Want == Latest:
		return fmt.Sprintf("version %q: none of the pipeline's %d versions is offered: name one by its number, or pin one", e.Want, e.Have)
	}
	return fmt.Sprintf("version %q: the pipeline has %d versions, but not this one", e.Want, e.Have)
}

// whole calls with for where a version is, given its number, its run, or [Latest]. With [Latest] it passes over
// versions that with finds to be incomplete: the newest that is whole counts. The error may be a *[NoVersionError].
func (c *Client) whole(ctx context.Context, want string, with func(schemas.Place) error) error {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return err
	}
	var incomplete error // of the first that is passed over
	for {
		place, err := l.Find(want)
		if err != nil {
			return cmp.Or(incomplete, err)
		}
		if err = with(place); want != Latest || !IsIncomplete(err) {
			return err
		}
		l.PassOver(place)
		incomplete = cmp.Or(incomplete, err)
	}
}

// Version returns the manifest of a version, given its number, its run, or [Latest]. The error may be a
// *[NoVersionError] or a *[GoneError].
func (c *Client) Version(ctx context.Context, want string) (m *schemas.Manifest, err error) {
	err = c.whole(ctx, want, func(place schemas.Place) error {
		v, err := c.manifest(ctx, place)
		if err == nil {
			m = v.manifest
		}
		return err
	})
	return m, err
}

// Model reads a version as a model, given its number, its run, or [Latest]. The error may be a *[NoVersionError] or a *[GoneError].
func (c *Client) Model(ctx context.Context, want string) (m *model.Model, err error) {
	err = c.whole(ctx, want, func(place schemas.Place) error {
		m, _, err = c.ModelAt(ctx, place, nil)
		return err
	})
	return m, err
}

// ModelAt reads the version at a place as a model, and when it was written. before is a model that it shares what is
// the same with; nil: none. The error may be a *[GoneError].
func (c *Client) ModelAt(ctx context.Context, place schemas.Place, before *model.Model) (m *model.Model, written time.Time, err error) {
	v := c.newVersion(place)
	if err := v.read(ctx, place.From, place.To); err != nil {
		return nil, written, err
	}
	if v.manifest != nil {
		if m, err := v.model(before); err == nil {
			return m, v.written, nil
		}
	}
	if err := v.readAll(ctx); err != nil {
		return nil, written, err
	}
	m, err = v.model(before)
	return m, v.written, err
}

// Survey returns the survey's result of a version, given its number, its run, or [Latest]. The error may be a *[NoVersionError] or a
// *[GoneError].
func (c *Client) Survey(ctx context.Context, want string) (survey *statistics.SurveyResult, err error) {
	err = c.whole(ctx, want, func(place schemas.Place) error {
		v, err := c.readUntil(ctx, place, func(v *version) bool { return v.records[v.manifest.Prepare] != nil })
		if err == nil {
			survey, err = v.survey()
		}
		return err
	})
	return survey, err
}

// Report returns the report of a version, given its number, its run, or [Latest]: nil if the version has none, as it was made by an earlier
// release. The error may be a *[NoVersionError] or a *[GoneError].
func (c *Client) Report(ctx context.Context, want string) (report *schemas.Report, err error) {
	err = c.whole(ctx, want, func(place schemas.Place) error {
		v, err := c.readUntil(ctx, place, func(v *version) bool { return v.report != nil })
		if err == nil {
			report = v.report
		}
		return err
	})
	return report, err
}

// readUntil reads the version at a place. If that does not have what is wanted of it, it reads the whole topic.
func (c *Client) readUntil(ctx context.Context, place schemas.Place, has func(*version) bool) (*version, error) {
	v := c.newVersion(place)
	if err := v.read(ctx, place.From, place.To); err != nil {
		return nil, err
	}
	if v.manifest == nil || !has(v) {
		if err := v.readAll(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// maxReportChunks bounds the messages that are read of a report. One with the largest confusion matrix takes five.
const maxReportChunks = 16

// Described returns the manifest of the version at a place, and its report, which is nil if an earlier release has made
// the version. It reads no weights. The error may be a *[GoneError].
func (c *Client) Described(ctx context.Context, place schemas.Place) (f Finished, report *schemas.Report, err error) {
	v := c.newVersion(place)
	// The report was written just before the manifest, mostly as one message. Single messages are cheap to read.
	chunks := int64(0)
	err = c.Remaining(ctx, c.Topics.Versions, 0, place.Manifest-1, place.Manifest, func(m Message) error {
		if m.Run() == place.Run && m.Kind() == schemas.KindReport {
			v.take(m)
			chunks = min(int64(m.Chunk()), maxReportChunks)
		}
		return nil
	})
	if err != nil {
		return f, nil, fmt.Errorf("read version %d: %w", place.Version, err)
	}
	if chunks > 0 {
		if err := v.read(ctx, place.Manifest-1-chunks, place.Manifest-1); err != nil {
			return f, nil, err
		}
	}
	if err := v.read(ctx, place.Manifest, place.To); err != nil {
		return f, nil, err
	}
	if v.manifest == nil {
		if err := v.readAll(ctx); err != nil {
			return f, nil, err
		}
	}
	return Finished{Manifest: *v.manifest, Written: v.written, Offered: !place.Withheld}, v.report, nil
}

// Remember keeps the model of the newest version of a chain in memory, for the run that goes on from it.
func (c *Client) Remember(m *model.Model) {
	if c.newest != nil {
		c.newest.Store(m)
	}
}

// ModelOf returns the version that a plan names, from memory if it is the newest of a chain.
func (c *Client) ModelOf(ctx context.Context, warm *schemas.Warm) (*model.Model, error) {
	var m *model.Model
	if c.newest != nil {
		m = c.newest.Load()
	}
	if m != nil && m.Manifest.Run == warm.Run && m.Manifest.Digest() == warm.Manifest {
		return m, nil
	}
	return c.Model(ctx, warm.Run)
}

// manifest reads the manifest of a version.
func (c *Client) manifest(ctx context.Context, place schemas.Place) (*version, error) {
	v := c.newVersion(place)
	if err := v.read(ctx, place.Manifest, place.To); err != nil {
		return nil, err
	}
	if v.manifest == nil {
		if err := v.readAll(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// version is what was read of a version.
type version struct {
	*Client
	place     schemas.Place
	documents wire.Documents
	collector wire.Collector[float32]
	manifest  *schemas.Manifest                     // nil: not read yet
	written   time.Time                             // the manifest
	report    *schemas.Report                       // nil: not read yet, or an earlier release has made the version
	records   map[wire.Digest]*wire.Record[float32] // by their digests
}

func (c *Client) newVersion(place schemas.Place) *version {
	return &version{Client: c, place: place, records: map[wire.Digest]*wire.Record[float32]{}}
}

// read reads the version's messages in a range of offsets. It skips damaged ones.
func (v *version) read(ctx context.Context, from, to int64) error {
	err := v.Remaining(ctx, v.Topics.Versions, 0, from, to, func(m Message) error {
		if m.Run() == v.place.Run && m.Value != nil {
			v.take(m)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read version %d: %w", v.place.Version, err)
	}
	return nil
}

// readAll reads the version's messages wherever they are. A message that was written again, by another solver or by a client that got
// no answer, may stand behind the place of the version, and compaction keeps the last copy. An error says that there is no manifest.
func (v *version) readAll(ctx context.Context) error {
	if err := v.read(ctx, 0, math.MaxInt64); err != nil {
		return err
	}
	if v.manifest == nil {
		return v.gone("its manifest is")
	}
	return nil
}

func (v *version) take(m Message) {
	switch m.Kind() {
	case schemas.KindManifest:
	case schemas.KindReport:
		if whole, ok, err := v.Codec.Document(&v.documents, m.Message); err == nil && ok && v.report == nil {
			v.report, _ = codec.DecodeJSON[schemas.Report](v.Codec, whole) // a damaged one is none
		}
		return
	default:
		if r, err := v.Codec.CollectSingle(&v.collector, m.Message); err == nil && r != nil {
			v.records[m.Digest()] = r
		}
		return
	}
	if whole, ok, err := v.Codec.Document(&v.documents, m.Message); err == nil && ok {
		if manifest, err := codec.DecodeManifest(v.Codec, whole); err == nil {
			v.manifest, v.written = manifest, m.Time
		}
	}
}

// GoneError means that a part of a version is no longer on the versions topic.
type GoneError struct {
	Version int
	What    string // the part, with its verb, as in "its manifest is"
	Topic   string
}

// Error returns what is gone.
func (e *GoneError) Error() string {
	return fmt.Sprintf("version %d: %s no longer on %s", e.Version, e.What, e.Topic)
}

// IsIncomplete reports whether an error of reading a version means that a part of it is gone or damaged.
func IsIncomplete(err error) bool {
	return errors.As(err, new(*GoneError)) || errors.Is(err, wire.ErrDamaged)
}

// gone returns the error that a part of the version is not on the topic.
func (v *version) gone(what string) error {
	return &GoneError{v.place.Version, what, v.Topics.Versions}
}

// survey returns the survey's result of the version.
func (v *version) survey() (*statistics.SurveyResult, error) {
	prepare := v.records[v.manifest.Prepare]
	if prepare == nil {
		return nil, v.gone("the survey's result is")
	}
	return v.Codec.SurveyResult(prepare)
}

// model returns the version as a model, which shares what is the same with the one before it.
func (v *version) model(before *model.Model) (*model.Model, error) {
	survey, err := v.survey()
	if err != nil {
		return nil, err
	}
	weights := make([][]*schemas.Weights, len(v.manifest.Blocks))
	for t, block := range v.manifest.Blocks {
		if v.records[block.Digest] == nil {
			return nil, v.gone(fmt.Sprintf("the weights of stage %d are", t))
		}
		// A learnt link needs the records before the final one too. Each names the one before it as its parent.
		for r := v.records[block.Digest]; r != nil && r.Kind == schemas.KindWeights && r.Stage == t; r = v.records[r.Parent] {
			w, err := schemas.WeightsOf(r)
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
			w, err := schemas.WeightsOf(r)
			if err != nil {
				return nil, err
			}
			weights[t] = append(weights[t], w)
		}
		slices.Reverse(weights[t])
	}
	m, err := before.Successor(v.manifest, survey.Preparation, weights)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.place.Version, err)
	}
	if digest := m.Digest(); digest != v.manifest.WeightsDigest {
		return nil, fmt.Errorf("version %d: its weights have digest %s, its manifest says %s: %w", v.place.Version, digest.Short(),
			v.manifest.WeightsDigest.Short(), wire.ErrDamaged)
	}
	return m, nil
}

// PublishVersion writes a version to the versions topic: the records that its model needs, then the report, which it
// calls for when they are there (nil: none), then the manifest. It returns where they are. The version counts once the
// end of the run says so.
func (c *Client) PublishVersion(ctx context.Context, manifest *schemas.Manifest, records []*wire.Record[float32],
	report func() *schemas.Report) (*schemas.Place, error) {
	place := &schemas.Place{Run: manifest.Run, Version: manifest.Version, From: -1}
	for _, r := range records {
		messages, err := c.Codec.EncodeSingle(r)
		if err != nil {
			return nil, err
		}
		at, err := c.Log.Append(ctx, c.Topics.Versions, 0, messages...)
		if err != nil {
			return nil, err
		}
		if place.From < 0 {
			place.From = at
		}
	}
	if report != nil {
		messages, err := report().Messages()
		if err != nil {
			return nil, err
		}
		if _, err := c.Log.Append(ctx, c.Topics.Versions, 0, messages...); err != nil {
			return nil, err
		}
	}
	messages, err := manifest.Messages()
	if err != nil {
		return nil, err
	}
	if place.Manifest, err = c.Log.Append(ctx, c.Topics.Versions, 0, messages...); err != nil {
		return nil, err
	}
	// Other writers may have written between the messages.
	if _, place.To, err = c.Log.Bounds(ctx, c.Topics.Versions, 0); err != nil {
		return nil, err
	}
	return place, nil
}

// Model returns the model of a chain with the survey's result and all final weights.
func (c *Chain) Model(manifest *schemas.Manifest) (*model.Model, error) {
	weights := make([][]*schemas.Weights, len(c.Plan.Stages))
	for t := range weights {
		weights[t] = c.weightsOf(t)
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
		return c.earlier.Successor(manifest, c.Survey.Preparation, weights) // it may have more inputs
	} else if u != nil && c.earlier != nil {
		return c.earlier.Next(manifest, weights)
	}
	return model.New(manifest, c.Survey.Preparation, weights)
}

// Records returns the records that a model needs of a chain that has all final weights: the survey's result, trees, and the weights that
// end each stage, with those before them if the link is learnt.
func (c *Chain) Records(m *model.Model) []*wire.Record[float32] {
	records := []*wire.Record[float32]{c.Survey.Record()}
	for t := range c.Plan.Stages {
		if w := c.structure(t); w != nil {
			records = append(records, w.Record())
		}
	}
	for i, w := range c.weights {
		if u := c.Plan.Update(); u != nil && u.Sparse {
			if w.Final != nil {
				records = append(records, c.whole(w.Stage, m.Weights(w.Stage)).Record())
			}
			continue
		}
		last := i+1 == len(c.weights) || c.weights[i+1].Stage != w.Stage
		if w.Kind == schemas.KindWeights && (last || link.Named(c.Plan.Stages[w.Stage].Link).Learnt) {
			records = append(records, w.Record())
		}
	}
	return records
}

// Block returns the weights that a version has of a stage, given its model, and their digest. Those of an update on sparse rows say the
// weights of few columns: a version has them whole.
func (c *Chain) Block(stage int, m *model.Model) (*schemas.Weights, wire.Digest) {
	final, digest := c.Final(stage)
	if u := c.Plan.Update(); u != nil && u.Sparse {
		final = c.whole(stage, m.Weights(stage))
		digest = final.Record().Digest()
	}
	return final, digest
}

// whole returns the weights that end a stage of an update on sparse rows, with all of them: a record of its own, whose parent has those
// that the update has changed.
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
		return w.Record().Digest()
	}
	return ""
}

// Trees returns the digest of the trees of a stage, whichever run has grown them; "" if it has none, or none yet.
func (c *Chain) Trees(stage int) wire.Digest {
	if w := c.structure(stage); w != nil {
		return schemas.WeightsDigest(w.Tensors)
	}
	return ""
}

// Newest returns the last remembered model; nil if there is none.
func (c *Client) Newest() *model.Model {
	if c.newest == nil {
		return nil
	}
	return c.newest.Load()
}
