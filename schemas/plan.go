// Package schemas defines the messages of a pipeline's topics: plans and ends of runs, chains and windows,
// weights, residuals, predictions, reports and manifests, with their identities and digests.
//
// It builds on smaller packages: wire encodes all messages; coverage lists the messages and rows of a sum; examples
// and statistics define the messages of these topics. All other packages of the pipeline import
// them, and they import none of these. FORMAT.md in this folder describes each message in a table, and testdata has one
// message of each kind.
//
// All input is untrusted. Decoders return an error that wraps [wire.ErrDamaged] for invalid bytes, and their memory is
// bounded by the number of bytes. Package schemas/stream does this for Arrow.
package schemas

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPlan is the kind of a [Plan] message.
const KindPlan wire.Kind = "plan"

// Plan defines a run: everything that its weights depend on, except the examples in its spans. It is fixed when the run
// begins, so a run is a bounded job even on an unbounded topic.
type Plan struct {
	Name  string         `json:"name"`  // name of the pipeline
	Spans coverage.Spans `json:"spans"` // offsets of the examples topic
	// Topic is the name of the examples topic, if it belongs to another pipeline. The run only reads it.
	Topic string `json:"topic,omitempty"`
	// Sources are the ingested sources that the run includes, in the order of their seals. Messages without a source are included if
	// Foreign is set.
	Sources []SourceSeal `json:"sources"`
	Foreign bool         `json:"foreign"` // whether messages without a source are included
	// Removed are the names of removed sources, in the format of [SourceName], if Foreign is set. The run reports their messages as left
	// out for this reason. Removals after the plan do not change the list.
	Removed []string `json:"removed,omitempty"`
	// Forgotten are the rows with weight 0: those that the run reads and, in a chain, those of the window.
	Forgotten coverage.Forgotten `json:"forgotten,omitempty"`
	// Heeded is the part of the forget topic that the plan applies; absent if the topic was empty.
	Heeded *Heeded `json:"heeded,omitempty"`
	// Expiring are the offsets that the spans exclude at the beginning of partitions because retention may delete them before the run ends.
	Expiring coverage.Spans `json:"expiring,omitempty"`
	// Outside are the other offsets that the spans exclude at the beginning and end of partitions, as configured.
	Outside coverage.Spans `json:"outside,omitempty"`

	// Input records how files were read, so that predictions read files in the same way.
	Input Input `json:"input"`

	Classes []string `json:"classes,omitempty"` // empty: determined by the survey
	// Targets are the names of the predicted numbers (regression); empty if labels are predicted.
	Targets []string `json:"targets,omitempty"`
	Labels  string   `json:"labels,omitempty"` // several if rows are multi-label; empty: one label per row
	// ClassWeight is the factor of the weights of training rows, by class: balanced, or a number for each of some labels; absent: 1.
	ClassWeight ClassWeight `json:"class_weight,omitzero"`
	// Threshold is the minimum probability for predicting the second of two classes; absent: the most probable class is predicted.
	Threshold    ThresholdRule `json:"threshold,omitzero"`
	Augment      Augment       `json:"augment,omitzero"` // rows generated from each training row; absent: none
	Missing      string        `json:"missing"`          // error | mean
	Holdout      float64       `json:"holdout"`          // fraction of the training rows to hold out
	Fold         examples.Fold `json:"fold,omitzero"`    // held-out fold of cross-validation; absent: none
	OnBadMessage string        `json:"on_bad_message"`   // quarantine | stop
	// Outcomes reports whether rows were joined with outcomes from another topic, which the report counts.
	Outcomes bool    `json:"outcomes,omitempty"`
	Prepare  Prepare `json:"prepare"` // preparation of raw features into inputs
	Stages   []Stage `json:"stages"`  // stages, with all defaults filled in
	// Average is the number of members that the plan averages; 0: none. Stages lists the stages of all members, one member after the other.
	Average    int        `json:"average,omitempty"`
	Intercept  bool       `json:"intercept"`       // whether the first block of the run, or of each member, ends with a constant feature
	Seed       uint64     `json:"seed"`            // seed of all random draws
	Segment    int64      `json:"segment"`         // messages per segment, at least 1; see Span.Segments
	Group      int        `json:"group,omitempty"` // maximum number of partitions of a share; 0: 1
	Arithmetic Arithmetic `json:"arithmetic"`      // arithmetic of the process that made the plan
	Warm       *Warm      `json:"warm,omitempty"`  // version to start from; absent: none
	Chain      *Chain     `json:"chain,omitempty"` // place in a chain of retraining; absent: none
	// Trial is true if the run helps to choose the stages of a chain, whose later rows may have other labels.
	Trial bool `json:"trial,omitempty"`
	// Trigger is true if a trigger such as a timer submitted the plan. While the plan waits for other runs, a later plan of a trigger
	// replaces it.
	Trigger bool `json:"trigger,omitempty"`
	// Submission is a random text, drawn when the plan is made, so that two runs of the same content have different IDs.
	Submission string `json:"submission"`
	// Since is where to begin to read. The run ID does not depend on it.
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
	// Plans is an offset of the plans topic before the plan. Absent in an end.
	Plans      int64   `json:"plans,omitempty"`
	Weights    int64   `json:"weights"`    // offset of the weights topic
	Statistics []int64 `json:"statistics"` // offsets of the statistics topic, by partition
	// Quarantine is an offset of the quarantine topic: the run ignores earlier messages. Set for runs of a chain that continue from earlier
	// runs. Absent in an end.
	Quarantine int64 `json:"quarantine,omitempty"`
}

// Input configures how files of examples are read.
type Input struct {
	Format       string   `json:"format,omitempty"`        // empty: detected from the content
	Label        string   `json:"label,omitempty"`         // label column of a table, such as a CSV file
	Weight       string   `json:"weight,omitempty"`        // weight column of a table
	LabelColumns []string `json:"label_columns,omitempty"` // label columns of a table: 1 in the rows that have the label
	Header       *bool    `json:"header,omitempty"`        // whether a CSV file has a header; absent: detected from the content

	Delimiter   string   `json:"delimiter,omitempty"`   // of a CSV file; empty: detected from the content
	Encoding    string   `json:"encoding,omitempty"`    // of text files; empty: UTF-8
	Use         []string `json:"use,omitempty"`         // feature columns of a table; empty: all that are not dropped
	Drop        []string `json:"drop,omitempty"`        // columns of a table to exclude
	Categorical []string `json:"categorical,omitempty"` // categorical columns of a table
	// Times is by timestamp column of a table: the parts of the time that become features.
	Times map[string][]string `json:"times,omitempty"`

	MissingValues []string `json:"missing_values,omitempty"` // words that mean a missing value; empty: the defaults
	// shape of the images in the examples; zeros: no images, or the messages give the shape
	Image examples.Image `json:"image,omitzero"`

	Text string `json:"text,omitempty"` // text column of a table, whose words are counted
	// number of columns that words are hashed to, or maximum size of the vocabulary; 0 without text
	WordColumns int `json:"word_columns,omitempty"`
	WordPhrases int `json:"word_phrases,omitempty"` // maximum number of words in a phrase; 0 without text

	// counted words and phrases, in column order; empty: all are counted, in hashed columns
	Vocabulary []string `json:"vocabulary,omitempty"`
	// hashing of categorical columns into columns of sparse rows; absent: they have columns of their own
	Hash *Hash `json:"hash,omitempty"`
	// index of the first column of sparse rows that were made dense; absent: rows were not converted
	FirstIndex *int64 `json:"first_index,omitempty"`
}

// Hash configures how the words of categorical columns are hashed into columns of sparse rows, which all categorical columns share.
type Hash struct {
	Columns int        `json:"columns"`         // number of columns that all words are hashed to
	Cross   [][]string `json:"cross,omitempty"` // lists of columns whose words are also hashed together
}

// Open reports whether rows may have labels that are not classes: see [Chain].
func (p *Plan) Open() bool { return p.Chain != nil && p.Chain.Open }

// Update returns what an update visits in addition to its new rows; nil for a full run.
func (p *Plan) Update() *Update {
	if p.Chain == nil {
		return nil
	}
	return p.Chain.Update
}

// Kind returns the kind of a run of a chain, as [RetrainReport] has it.
func (p *Plan) Kind() string {
	if p.Update() != nil {
		return RunUpdate
	}
	return RunFull
}

// Partitions returns the partitions of the examples that visits to stages read, in order: those of the spans and, for an update, those of
// the increments that it revisits or that leave.
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

// DefaultShares is the maximum number of shares unless the number of partitions of a share is configured. It limits the number
// of workers with work, and of records of a visit on the statistics topic.
const DefaultShares = 8

// ShareSize returns the number of partitions of a share of a topic with the given number of partitions; 0 configured means that
// there are at most the given number of shares.
func ShareSize(configured, partitions, shares int) int {
	if configured > 0 {
		return configured
	}
	return max(1, (partitions+shares-1)/shares)
}

// Share is consecutive partitions that a worker owns together. A record of statistics is that of a share: its sums associate over segments
// in the order of the partitions, then over shares in order. So bits do not depend on the owners of the shares.
type Share struct {
	First      int   // the first partition that the share may have: its identity in records, and in a worker's ownership
	Partitions []int // of the plan, ascending
}

// ShareOf returns the first partition of the share that a partition belongs to.
func (p *Plan) ShareOf(partition int) int { return partition - partition%max(p.Group, 1) }

// Shares divides ascending partitions into shares.
func (p *Plan) Shares(partitions []int) (shares []Share) {
	for _, number := range partitions {
		if last := len(shares) - 1; last >= 0 && shares[last].First == p.ShareOf(number) {
			shares[last].Partitions = append(shares[last].Partitions, number)
			continue
		}
		shares = append(shares, Share{p.ShareOf(number), []int{number}})
	}
	return shares
}

// Surveyed returns the partitions of the examples that the survey reads, in order.
func (p *Plan) Surveyed() (numbers []int) {
	for _, s := range p.Spans.Hulls() {
		numbers = append(numbers, s.Partition)
	}
	return numbers
}

// Prepares reports whether the run's survey makes a preparation. A run that starts from a version keeps the version's preparation.
func (p *Plan) Prepares() bool { return p.Warm == nil }

// Warm identifies the finished version that a run starts from. The run keeps the version's survey and feature maps, and its
// stages begin with the version's weights.
type Warm struct {
	Run      string      `json:"run"`      // run that made the version
	Manifest wire.Digest `json:"manifest"` // digest of the version's manifest
}

// Arithmetic is what the bits of a sum depend on, other than its terms.
type Arithmetic struct {
	Numerics  string `json:"numerics"`      // revision of the numeric code
	Processor string `json:"processor"`     // architecture, such as amd64
	BLAS      string `json:"blas"`          // name, version and core type of the BLAS
	Vector    string `json:"vector"`        // vector instructions, such as avx2
	Any       bool   `json:"any,omitempty"` // allows workers with any processor, BLAS and vector instructions
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

// Run returns the run ID. It depends only on the plan, not on earlier runs.
func (p *Plan) Run() string { return p.Digest().Short() }

// Messages encodes the plan for the plans topic.
func (p *Plan) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindPlan, p.Run(), p) }

// MaxSegments is the maximum number of segments of a plan, because workers keep state in memory for each. It allows 33
// million messages at 16 per segment.
const MaxSegments = 1 << 21

// SegmentsError reports that a plan has too many segments. Length is the number of messages of a segment.
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
	if p.Average != 0 && !(p.Average > 1 && len(p.Stages)%p.Average == 0) {
		return fmt.Errorf("average is %d, of %d stages: expected at least 2 members, with as many stages each", p.Average, len(p.Stages))
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
	}
	return examples.CheckLabels(p.Classes)
}

// LabelsSeveral is the value of Plan.Labels for multi-label rows.
const LabelsSeveral = "several"

// Task returns the prediction task of the plan's versions.
func (p *Plan) Task() examples.Task {
	switch {
	case len(p.Targets) > 0:
		return examples.Numbers
	case p.Labels == LabelsSeveral:
		return examples.SeveralLabels
	}
	return examples.OneLabel
}

// A plan may average several members: models that are trained independently, each from the beginning, and whose
// predictions are averaged. The stages of the plan are those of one member after the other. Random draws depend on the
// stage number, so no two members have the same random features.

// Members returns the number of models that the plan averages; 1 without averaging.
func (p *Plan) Members() int { return max(p.Average, 1) }

// MemberStages returns the number of stages of a member.
func (p *Plan) MemberStages() int { return len(p.Stages) / p.Members() }

// Member returns the member that a stage belongs to, both counted from 0.
func (p *Plan) Member(stage int) int { return stage / p.MemberStages() }

// BeginsMember reports whether a stage is the first of a member. The score before it is 0, and it may have an intercept.
func (p *Plan) BeginsMember(stage int) bool { return stage%p.MemberStages() == 0 }

// EndsMember reports whether a stage is the last of a member, so that its predictions are those of the member.
func (p *Plan) EndsMember(stage int) bool { return p.BeginsMember(stage + 1) }

// Votes reports whether the plan averages and some members are finished after a stage: the residuals after it then have votes.
func (p *Plan) Votes(stage int) bool { return p.Members() > 1 && stage+1 >= p.MemberStages() }

// Temperature returns the divisor of the scores after a stage for predictions of the model: 1 before the last stage of a member.
func (p *Plan) Temperature(stage int) float64 {
	if t := p.Stages[stage].Temperature; t > 0 && p.EndsMember(stage) {
		return t
	}
	return 1
}

// Augment configures the rows that a run generates from each training row that is an image, in addition to the row itself. They share its
// weight and exist only in visits: no examples message has them, and they replace no other row. The zero value generates none.
type Augment struct {
	Mirror bool `json:"mirror,omitempty"` // adds the image mirrored from left to right, and its shifts
	Shift  int  `json:"shift,omitempty"`  // adds the image shifted by 1 to this many pixels to the left, to the right, up and down
}

// Rows returns the number of rows of an image, including the image itself.
func (a Augment) Rows() int {
	n := 1 + 4*a.Shift
	if a.Mirror {
		n *= 2
	}
	return n
}
