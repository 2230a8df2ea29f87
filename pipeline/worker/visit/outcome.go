package visit

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Outcome is what a scan finds in a segment, or in the segments of a share.
type Outcome struct {
	Sum    *accumulate.Sum
	Sample *accumulate.Sample        // of the survey, or for growing trees; nil: none
	Found  *statistics.Findings      // of the survey
	left   map[int]coverage.Coverage // coverage of the rows that leave the window of a chain, by increment
	Events []event.Quarantined       // of the messages of a segment in quarantine

	// Of a segment, when a stage is published:
	Terms    *accumulate.Sum // of its increment in a full run of a chain
	Messages []wire.Message  // residuals
	Rows     int64           // of these
	Scores   []scored
}

// scored is the scores and votes of a part of an examples message, for the digest of a seal.
type scored struct {
	Offset       int64
	Row          int
	Score, Votes []float32
}

// Outcomes are the outcomes of shares, as far as they are collected.
type Outcomes map[*Share]*Outcome

// Add adds the outcome of the next of a number of segments of a share. It returns the outcome of all of them when it is complete, otherwise
// nil.
func (all Outcomes) Add(at *Load, next *Outcome, segments int) (*Outcome, error) {
	whole := all[at.Share]
	if whole == nil {
		next.Sum.Spread()
		whole = &Outcome{Sum: next.Sum, Sample: next.Sample, Found: next.Found, left: next.left}
		all[at.Share] = whole
	} else if err := whole.merge(next); err != nil {
		return nil, err
	}
	if at.Index < segments-1 {
		return nil, nil
	}
	delete(all, at.Share)
	return whole, nil
}

// merge adds the outcome of the next segment.
func (o *Outcome) merge(next *Outcome) error {
	if err := o.Sum.Merge(next.Sum); err != nil {
		return err
	}
	if next.Sample != nil {
		o.Sample.Merge(next.Sample)
	}
	for increment, read := range next.left {
		if err := read.Merge(o.left[increment]); err != nil {
			return err
		}
		if o.left == nil {
			o.left = map[int]coverage.Coverage{}
		}
		o.left[increment] = read
	}
	if next.Found == nil {
		return nil
	}
	return o.Found.Merge(next.Found)
}

// errChanged means that a visit has read other rows than the survey, or than the run that added them to the window.
var errChanged = errors.New("the topic has changed")

// Check returns an error unless the outcome of a number of segments of a share, even if it is only a Gram matrix or that of a sample, has
// the coverage of the survey, and that of the increments that leave the window, whose sums can't be corrected.
func (o *Outcome) Check(run *Run, p *Share, segments int) error {
	want := p.Covered
	if segments == p.Recent {
		want = p.Surveyed
	}
	if !o.Sum.Coverage.Same(want) {
		return fmt.Errorf("partitions %v: %w: %v, the survey had %v", p.Numbers(), errChanged, extent(o.Sum.Coverage), extent(want))
	}
	if len(o.left) == 0 {
		return nil
	}
	for i := range run.Plan.Update().Leave {
		of := &run.Plan.Update().Leave[i]
		read, any := o.left[i]
		if !any || of.Uncounted {
			continue
		}
		want := coverage.Coverage{}
		for _, part := range p.Parts {
			added, _ := of.On(part.Span.Partition)
			if err := want.Merge(added); err != nil {
				return err
			}
		}
		if read.Spans = want.Spans; !read.Same(want) {
			return fmt.Errorf("partitions %v: %w: %v, run %d of the chain had %v", p.Numbers(), errChanged, extent(read), of.Number, extent(want))
		}
	}
	return nil
}

// extent is a coverage in an error.
type extent coverage.Coverage

// String returns the numbers of rows and messages, and the checksum.
func (e extent) String() string {
	return fmt.Sprintf("%d rows in %d messages (%016x)", e.Rows, e.Messages, e.Checksum)
}
