package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Plan is what a run is: all that its weights depend on beside the examples in
// its spans. It is fixed when the run begins, so a run is a bounded job even on
// a topic that never ends.
type Plan struct {
	Name  string `json:"name"`
	Spans Spans  `json:"spans"`
	// Sources are the ingested sources that count, in the order of their
	// seals. Messages without a source count if Foreign is set.
	Sources []SourceSeal `json:"sources"`
	Foreign bool         `json:"foreign"`

	// Input is how files were read, which whoever predicts from files has to know.
	Input Input `json:"input"`

	Classes      []string   `json:"classes,omitempty"` // empty: found by the survey
	Missing      string     `json:"missing"`           // error | mean
	Holdout      float64    `json:"holdout"`           // fraction of the training rows
	OnBadMessage string     `json:"on_bad_message"`    // quarantine | stop
	Prepare      Prepare    `json:"prepare"`
	Stages       []Stage    `json:"stages"` // resolved: as many as there will be
	Intercept    bool       `json:"intercept"`
	Seed         uint64     `json:"seed"`
	Segment      int64      `json:"segment"` // messages, see Span.Segments
	Arithmetic   Arithmetic `json:"arithmetic"`
	Warm         *Warm      `json:"warm,omitempty"`
	// Ended is how many runs of the same content ended before this one.
	Ended int `json:"ended"`
	// Since is where to begin to read; it is no part of what the run is.
	Since Since `json:"since"`
}

// Since is the ends of topics when the plan was made: no record of the run is
// before them.
type Since struct {
	Weights    int64   `json:"weights"`
	Statistics []int64 `json:"statistics"` // by partition of that topic
}

// Input is how files of examples are read.
type Input struct {
	Format string `json:"format,omitempty"` // empty: by the file
	Label  string `json:"label,omitempty"`  // a CSV's column
	Weight string `json:"weight,omitempty"` // likewise
	Header *bool  `json:"header,omitempty"`
}

// Warm is the finished version that a run starts from: its survey's result is
// kept, so are its feature maps, and its weights are where stages begin.
type Warm struct {
	Run      string `json:"run"`
	Manifest Digest `json:"manifest"`
}

// Arithmetic is what decides the bits of a sum besides its terms. A process
// with another stands aside.
type Arithmetic struct {
	Build  string `json:"build"`
	BLAS   string `json:"blas"`
	Vector string `json:"vector"`
}

// Prepare says what becomes of raw features before any stage sees them. They
// are scaled as Scale says, then centred at their mean over the training rows.
type Prepare struct {
	// Scale is none, standard (each feature is divided by its deviation) or unit
	// (each example is divided by its Euclidean length).
	Scale string `json:"scale"`
	PCA   int    `json:"pca"` // principal components; 0: the features themselves
}

// Stage is one block and how it is fitted.
type Stage struct {
	Features Features `json:"features"`
	Link     Link     `json:"link"`
	Passes   int      `json:"passes"` // at most: visits that give a loss and a gradient
	Ridge    float64  `json:"ridge"`  // λ = ridge · trace(S)/p
	Method   string   `json:"method"` // auto | paper
	GramRows string   `json:"gram_rows" mapstructure:"gram_rows"`
	Scores   bool     `json:"scores"` // the previous predictions as k more features
	Stop     *Stop    `json:"stop,omitempty"`
}

// Stop ends a stage when the loss of a split has not fallen for Patience passes.
type Stop struct {
	Split    string `json:"split"` // holdout | test
	Patience int    `json:"patience"`
}

// Features says how a block is generated.
type Features struct {
	Kind           string  `json:"kind"` // package stages has the table of kinds
	Size           int     `json:"size"` // p; columns: 0 is all
	BandwidthScale float64 `json:"bandwidth_scale" mapstructure:"bandwidth_scale"`
	Degree         int     `json:"degree"`      // polynomial: at most
	Replacement    bool    `json:"replacement"` // columns: drawn with replacement
}

// Link is how a score becomes a prediction, and with it the unit of the score.
type Link string

const (
	LinkIdentity   Link = "identity"   // the score itself: squared loss
	LinkSoftmax    Link = "softmax"    // its softmax: log loss
	LinkCalibrated Link = "calibrated" // learnt by Algorithm 2: squared loss
)

// Content is the digest of everything but Ended and Since.
func (p *Plan) Content() Digest {
	content := *p
	content.Ended = 0
	return content.Digest()
}

// Digest is the parent of the survey's statistics. It is over everything but
// Since. An empty list is the same whether it is nil or not.
func (p *Plan) Digest() Digest {
	identity := *p
	identity.Since = Since{}
	identity.Spans = orNil(p.Spans)
	identity.Sources = orNil(slices.Clone(p.Sources))
	for i := range identity.Sources {
		identity.Sources[i].Spans = orNil(identity.Sources[i].Spans)
	}
	identity.Stages = orNil(p.Stages)
	return DigestJSON(identity)
}

func orNil[S ~[]E, E any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Run is the run's id: a retried submission of the same content is the same
// run, one after that run has ended is the next.
func (p *Plan) Run() string { return p.Digest().Short() }

// Message encodes the plan for the plans topic.
func (p *Plan) Message() Message {
	return jsonMessage(KindPlan, p.Run(), "plan/"+p.Run(), p)
}

// States in which a run ends.
const (
	Done      = "done"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// End says how a run ended.
type End struct {
	Run     string `json:"run"`
	Content Digest `json:"content"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	// Attempt is unlike that of any other end, so that compaction keeps each. If
	// there are several, done counts before cancelled, and that before failed.
	Attempt string `json:"attempt,omitempty"`
}

// Message encodes the end for the plans topic.
func (e *End) Message() Message { return jsonMessage(KindEnd, e.Run, "end/"+e.Run+"/"+e.Attempt, e) }

// Failure says what the log has made impossible; the solver ends the run on it.
type Failure struct {
	Run       string `json:"run"`
	Partition int    `json:"partition"`
	Reason    string `json:"reason"`
}

// Message encodes the failure for the statistics topic.
func (f *Failure) Message() Message {
	return jsonMessage(KindFailure, f.Run, fmt.Sprintf("%s/failure/%d", f.Run, f.Partition), f)
}

// SourceSeal says that an ingested source is on the examples topic, whole.
// Its messages carry ID and Attempt in the header `source` and their number
// in the header `sequence`; sequence s is in partition s mod Partitions.
type SourceSeal struct {
	ID         string `json:"id"`      // digest of its content and settings
	Attempt    string `json:"attempt"` // what a half ingest before it does not share
	Split      string `json:"split"`
	Partitions int    `json:"partitions"`
	Messages   int64  `json:"messages"`
	Rows       int64  `json:"rows"`
	Spans      Spans  `json:"spans"` // of the offsets that hold its messages
}

// Header is the value of the header `source` of this source's messages.
func (s *SourceSeal) Header() string { return s.ID + "/" + s.Attempt }

// Message encodes the seal for the plans topic.
func (s *SourceSeal) Message() Message {
	return jsonMessage(KindSource, "", "source/"+s.Header(), s)
}

// Manifest says that a version is whole: everything that predicts with it.
type Manifest struct {
	Name          string             `json:"name"`
	Version       int                `json:"version"` // 1, 2, … in the order of the runs
	Run           string             `json:"run"`
	Plan          *Plan              `json:"plan"`
	Labels        []string           `json:"labels"`
	Rows          map[string]int64   `json:"rows"` // by split
	Prepare       Digest             `json:"prepare"`
	Blocks        []BlockDigest      `json:"blocks"`
	Metrics       map[string]float64 `json:"metrics"`
	WeightsDigest Digest             `json:"weights_digest"`
}

// BlockDigest names the final record of a stage and, for a calibrated one,
// how many links of its chain count.
type BlockDigest struct {
	Stage  int    `json:"stage"`
	Visit  int    `json:"visit"`
	Links  int    `json:"links,omitempty"`
	Digest Digest `json:"digest"`
}

// Message encodes the manifest for the weights topic.
func (m *Manifest) Message() Message {
	return jsonMessage(KindManifest, m.Run, "manifest/"+m.Run, m)
}

func jsonMessage(kind Kind, run, key string, value any) Message {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for %T: %v", value, err))
	}
	return Message{Key: key, Headers: []Header{{"kind", string(kind)}, {"run", run}}, Value: content}
}

// mostSegments bounds what a plan may ask of those who follow it, who remember
// something of each segment: 33 million messages at 16 a segment.
const mostSegments = 1 << 21

// SegmentsError says that a plan's spans are cut into too many segments.
type SegmentsError struct{ Length int64 }

func (e *SegmentsError) Error() string {
	return fmt.Sprintf("more than %d segments of %d messages: make segments longer", mostSegments, e.Length)
}

// Check tells what of a plan would make those who follow it fail, or take more
// memory than the plan is worth.
func (p *Plan) Check() error {
	if p.Segment < 1 {
		return fmt.Errorf("segments of %d messages", p.Segment)
	}
	for i := range p.Sources {
		if err := p.Sources[i].Check(); err != nil {
			return err
		}
	}
	if err := checkSpans(p.Spans); err != nil {
		return err
	}
	left := int64(mostSegments)
	for _, s := range p.Spans {
		if left -= s.pieces(p.Segment); left < 0 {
			return &SegmentsError{p.Segment}
		}
	}
	return CheckLabels(p.Classes)
}

// Check tells what of a seal would make those who count its source fail.
func (s *SourceSeal) Check() error {
	if s.Partitions < 1 {
		return fmt.Errorf("a source on %d partitions", s.Partitions)
	}
	return checkSpans(s.Spans)
}

// Check tells what of a manifest, or of its plan, would make a reader fail.
func (m *Manifest) Check() error {
	if m.Plan == nil {
		return errors.New("a manifest without its plan")
	}
	return m.Plan.Check()
}

func checkSpans(spans Spans) error {
	for _, s := range spans {
		if s.Partition < 0 || s.From < 0 {
			return fmt.Errorf("span %v", s)
		}
	}
	_, err := spans.Union(nil)
	return err
}

// DecodeJSON reads the value of a plan, an end, a failure, a source's seal or a
// manifest. Errors wrap ErrDamaged.
func DecodeJSON[T Plan | End | Failure | SourceSeal | Manifest](m Message) (*T, error) {
	value := new(T)
	err := error(nil)
	if len(m.Value) > MaxMessage { // what it becomes may be fifty times as large
		err = fmt.Errorf("%d bytes, expected at most %d", len(m.Value), MaxMessage)
	} else if err = json.Unmarshal(m.Value, value); err == nil {
		if checked, ok := any(value).(interface{ Check() error }); ok {
			err = checked.Check()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decode %s %s: %w", ErrDamaged, m.Kind(), quote(m.Key), err)
	}
	return value, nil
}
