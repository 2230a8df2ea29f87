package schemas

import (
	"fmt"
	"slices"
)

// KindPlan is the kind of a [Plan].
const KindPlan Kind = "plan"

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

// Values of Plan.OnBadMessage.
const (
	QuarantineBadMessages = "quarantine" // put it on the quarantine topic and go on
	StopOnBadMessage      = "stop"       // end the run
)

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

func planLayout() Layout {
	return Layout{
		Kind: KindPlan, Topic: "plans", Key: "plan/RUN", Writer: "who submits", Reader: "all", Says: "what a run is", Value: Plan{},
	}
}
