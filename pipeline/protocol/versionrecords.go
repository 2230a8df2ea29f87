package protocol

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// version collects the records of a version.
type version struct {
	topic     string // versions topic
	codec     Codec
	place     schemas.Place
	documents wire.Documents
	collector wire.Collector[float32]
	manifest  *schemas.Manifest                     // nil: not read yet
	written   time.Time                             // timestamp of the manifest
	report    *schemas.Report                       // nil: not read yet, or there is none
	records   map[wire.Digest]*wire.Record[float32] // by digest
}

// readFrom reads the version at a place, from an offset of that place on. If that has no manifest, or not enough, it reads the
// whole topic: if a message was written again, by a second solver or by a client that got no response, compaction keeps the last
// copy, which may be behind the version's place. The error is a *[GoneError] if there is no manifest.
func (c *Client) readFrom(ctx context.Context, place schemas.Place, from int64, enough func(*version) bool) (*version, error) {
	v := &version{topic: c.Topics.Versions, codec: c.Codec, place: place, records: map[wire.Digest]*wire.Record[float32]{}}
	for _, span := range []coverage.Span{{From: from, To: place.To}, {To: math.MaxInt64}} {
		err := c.Remaining(ctx, v.topic, 0, span.From, span.To, func(m Message) error {
			if m.Run() == place.Run && m.Value != nil {
				v.apply(m)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read version %d: %w", place.Version, err)
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
		if r, err := v.codec.CollectSingle(&v.collector, m.Message); err == nil && r != nil {
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
	return statistics.SurveyResultOf(prepare)
}

// model returns the version as a model, which shares unchanged tensors with before.
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
		// A learnt link also needs the records before the final one. The parent of each is the previous record.
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
