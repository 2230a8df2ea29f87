package schemas

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/threshold"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPlan is the kind of a [Plan] message.
const KindPlan wire.Kind = "plan"

// Plan defines a run: everything that its weights depend on, except the examples in its spans. It is fixed when the run
// begins, so a run is a bounded job even on a topic that never ends.
type Plan struct {
	Name  string         `json:"name"`  // of the pipeline
	Spans coverage.Spans `json:"spans"` // of the examples topic
	// Topic is the name of the examples topic if it is another pipeline's, which is only read.
	Topic string `json:"topic,omitempty"`
	// Sources are the ingested sources that count, in the order of their seals. Messages without a source count if Foreign
	// is set.
	Sources []SourceSeal `json:"sources"`
	Foreign bool         `json:"foreign"` // whether messages without a source count
	// Removed are the names of sources, as [SourceName] has them, that were removed, if Foreign is set: so the run can say why it leaves
	// out their messages. Removals after the plan do not change it.
	Removed []string `json:"removed,omitempty"`
	// Forgotten are rows that count with weight 0: those that the run reads and, of a chain, those of the window.
	Forgotten coverage.Forgotten `json:"forgotten,omitempty"`
	// Heeded is how much of the forget topic the plan heeds; absent: there was nothing.
	Heeded *Heeded `json:"heeded,omitempty"`
	// Expiring is what the spans leave out at the beginning of partitions, because retention may delete it before the run has ended.
	Expiring coverage.Spans `json:"expiring,omitempty"`
	// Outside is what else the spans leave out at the beginning and the end of partitions, because the configuration says so.
	Outside coverage.Spans `json:"outside,omitempty"`

	// Input says how files were read, so that predictions read files in the same way.
	Input Input `json:"input"`

	Classes []string `json:"classes,omitempty"` // empty: the survey finds them
	// Targets are the names of the numbers that are predicted; none: labels are.
	Targets []string `json:"targets,omitempty"`
	Labels  string   `json:"labels,omitempty"` // how many labels a row may have: several, or one if it is empty
	// ClassWeight is by what the weights of training rows are multiplied, by their class: balanced, or a number for each
	// of some labels; absent: by 1.
	ClassWeight ClassWeight `json:"class_weight,omitzero"`
	// Threshold is from which probability of the second of two classes on a row is given it; absent: the most probable class is given.
	Threshold    threshold.Rule `json:"threshold,omitzero"`
	Augment      Augment        `json:"augment,omitzero"` // the rows that a run makes of each training row; absent: none
	Missing      string         `json:"missing"`          // error | mean
	Holdout      float64        `json:"holdout"`          // fraction of the training rows
	Fold         examples.Fold  `json:"fold,omitzero"`    // of cross-validation, which is held out; absent: the rows are in none
	OnBadMessage string         `json:"on_bad_message"`   // quarantine | stop
	Prepare      Prepare        `json:"prepare"`          // how raw features become inputs
	Stages       []Stage        `json:"stages"`           // each with all defaults filled in
	// Average is how many members the plan averages; 0: none. Stages are those of all members, one member after the other.
	Average    int        `json:"average,omitempty"`
	Intercept  bool       `json:"intercept"`       // whether the first block, or that of each member, ends with a constant feature
	Seed       uint64     `json:"seed"`            // of all random draws
	Segment    int64      `json:"segment"`         // messages, at least 1; see Span.Segments
	Group      int        `json:"group,omitempty"` // partitions that are merged first; 0: coverage.GroupSize
	Arithmetic Arithmetic `json:"arithmetic"`      // of the process that made the plan
	Warm       *Warm      `json:"warm,omitempty"`  // nil: it starts from nothing
	Chain      *Chain     `json:"chain,omitempty"` // nil: the run is of no chain of retraining
	// Trigger says that a trigger submitted the plan, such as a timer: while it waits for other runs, a later plan of a trigger
	// replaces it.
	Trigger bool `json:"trigger,omitempty"`
	// Submission is a text that was drawn when the plan was made, so that two runs of the same content have different ids.
	Submission string `json:"submission"`
	// Since says where to begin to read. The run's id does not depend on it.
	Since Since `json:"since"`
}

// Values of Plan.OnBadMessage.
const (
	QuarantineBadMessages = "quarantine" // publish it to the quarantine topic and continue
	StopOnBadMessage      = "stop"       // end the run
)

// Since holds the end offsets of topics at the time when the plan was made, or when the run before it ended. No record of the run
// precedes them.
type Since struct {
	// Plans is an offset of the plans topic that the plan comes after. An end does not have it.
	Plans      int64   `json:"plans,omitempty"`
	Weights    int64   `json:"weights"`    // offset of the weights topic
	Statistics []int64 `json:"statistics"` // by partition of the statistics topic
	// Quarantine is an offset of the quarantine topic: messages before it tell the run nothing. Runs of a chain have it
	// that go on from what the runs before have looked at. An end does not have it.
	Quarantine int64 `json:"quarantine,omitempty"`
}

// Input configures how files of examples are read.
type Input struct {
	Format       string   `json:"format,omitempty"`        // empty: told by the file's content
	Label        string   `json:"label,omitempty"`         // column of a table, such as a CSV file
	Weight       string   `json:"weight,omitempty"`        // column of a table
	LabelColumns []string `json:"label_columns,omitempty"` // columns of a table that have 1 in the rows with a label
	Header       *bool    `json:"header,omitempty"`        // whether a CSV file has one; nil: told by its content

	Delimiter   string   `json:"delimiter,omitempty"`   // of a CSV file; empty: told by its content
	Encoding    string   `json:"encoding,omitempty"`    // of files of text; empty: UTF-8
	Use         []string `json:"use,omitempty"`         // columns of a table that become features; none: all that are not dropped
	Drop        []string `json:"drop,omitempty"`        // columns of a table that are left out
	Categorical []string `json:"categorical,omitempty"` // columns of words of a table
	// parts of times that columns of a table become
	Times map[string][]string `json:"times,omitempty"`

	MissingValues []string `json:"missing_values,omitempty"` // words that say that a value is missing; none: the usual ones
	// shape of the images that the examples are; zero: they are none, or the messages say it
	Image examples.Image `json:"image,omitzero"`

	Text string `json:"text,omitempty"` // column of texts of a table, whose words are counted
	// how many columns the words are hashed to, or the most that they may have; 0 without texts
	WordColumns int `json:"word_columns,omitempty"`
	WordPhrases int `json:"word_phrases,omitempty"` // the most words that count together; 0 without texts

	// the words and phrases that count, in the order of their columns; none: all do, and a hash gives their columns
	Vocabulary []string `json:"vocabulary,omitempty"`
	// how categorical columns become columns of sparse rows; none: they have columns of their own
	Hash *Hash `json:"hash,omitempty"`
	// the index of the first column of sparse rows that were made dense; none: they are as they were
	FirstIndex *int64 `json:"first_index,omitempty"`
}

// Hash says how the words of categorical columns become columns of sparse rows: by a hash, to so many columns for all of them.
type Hash struct {
	Columns int        `json:"columns"`         // that all words are hashed to
	Cross   [][]string `json:"cross,omitempty"` // lists of columns whose words are also hashed together
}

// Update returns what an update visits beside its new rows; nil if the run is full.
func (p *Plan) Update() *Update {
	if p.Chain == nil {
		return nil
	}
	return p.Chain.Update
}

// Partitions returns the partitions of the examples that visits to stages read, in order: those of the spans, and in an update those of
// the increments that it visits again or that leave.
func (p *Plan) Partitions() (numbers []int) {
	for _, s := range p.Spans {
		numbers = append(numbers, s.Partition)
	}
	if u := p.Update(); u != nil {
		for _, c := range p.Chain.increments() {
			for _, covered := range c.Covered {
				numbers = append(numbers, covered.Spans[0].Partition)
			}
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// Merges returns how sums over as many partitions associate.
func (p *Plan) Merges(partitions int) coverage.Tree {
	return coverage.Tree{Parts: partitions, Group: p.Group}
}

// Prepares reports whether the run's survey makes a preparation. A run that starts from a version keeps the version's.
func (p *Plan) Prepares() bool { return p.Warm == nil }

// Warm names the finished version that a run starts from. The run keeps the version's survey and feature maps, and its
// stages begin with the version's weights.
type Warm struct {
	Run      string      `json:"run"`      // of the version
	Manifest wire.Digest `json:"manifest"` // of the version's manifest
}

// Arithmetic is what the bits of a sum depend on, besides its terms.
type Arithmetic struct {
	Numerics  string `json:"numerics"`      // revision of the numeric code
	Processor string `json:"processor"`     // its architecture, as amd64
	BLAS      string `json:"blas"`          // its name, version and core type
	Vector    string `json:"vector"`        // the vector instructions, as avx512
	Any       bool   `json:"any,omitempty"` // any processor, BLAS and vector instructions may work on the run
}

// Admits reports whether a process with the arithmetic here may work on a run whose plan has the arithmetic a.
func (a Arithmetic) Admits(here Arithmetic) bool {
	if a.Any {
		return a.Numerics == here.Numerics
	}
	return a == here
}

// Content returns the digest of everything except Submission and Since.
func (p *Plan) Content() wire.Digest {
	content := *p
	content.Submission = ""
	return content.Digest()
}

// Digest returns the digest of everything except Since. It is the parent of the survey's records. A nil list and an empty
// one have the same digest.
func (p *Plan) Digest() wire.Digest {
	identity := *p
	identity.Since = Since{}
	identity.Spans = orNil(p.Spans)
	identity.Sources = orNil(slices.Clone(p.Sources))
	for i := range identity.Sources {
		identity.Sources[i].Spans = orNil(identity.Sources[i].Spans)
	}
	identity.Stages = orNil(p.Stages)
	return wire.DigestJSON(identity)
}

// orNil returns nil for an empty list.
func orNil[S ~[]E, E any](list S) S {
	if len(list) == 0 {
		return nil
	}
	return list
}

// Run returns the run's id. It depends on the plan alone, and not on what ran before.
func (p *Plan) Run() string { return p.Digest().Short() }

// Messages encodes the plan for the plans topic. The error is a *[wire.DocumentError].
func (p *Plan) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindPlan, p.Run(), p) }

// MaxSegments is the maximum number of segments of a plan, as workers keep something in memory for each. It allows 33
// million messages at 16 per segment.
const MaxSegments = 1 << 21

// SegmentsError says that a plan has too many segments. Length is the number of messages of a segment.
type SegmentsError struct{ Length int64 }

// Error implements error.
func (e *SegmentsError) Error() string {
	return fmt.Sprintf("more than %d segments of %d messages: make segments longer", MaxSegments, e.Length)
}

// Check returns an error for a plan that would make a worker or a solver fail or run out of memory. Too many segments are
// a *[SegmentsError].
func (p *Plan) Check() error {
	if p.Segment < 1 {
		return fmt.Errorf("segment is %d, expected at least 1", p.Segment)
	}
	if p.Group < 0 {
		return fmt.Errorf("group is %d, expected at least 0", p.Group)
	}
	for i := range p.Sources {
		if err := p.Sources[i].Check(); err != nil {
			return err
		}
	}
	if err := p.checkAverage(); err != nil {
		return err
	}
	if err := coverage.Check(p.Spans); err != nil {
		return err
	}
	if err := p.Forgotten.Check(); err != nil {
		return err
	}
	left := int64(MaxSegments)
	for _, s := range p.Spans {
		if left -= s.SegmentCount(p.Segment); left < 0 {
			return &SegmentsError{p.Segment}
		}
	}
	if p.Chain != nil {
		for _, c := range p.Chain.increments() {
			if err := c.Check(); err != nil {
				return err
			}
		}
		if u := p.Chain.Update; u != nil {
			if err := u.checkForget(); err != nil {
				return err
			}
		}
	}
	return examples.CheckLabels(p.Classes)
}
