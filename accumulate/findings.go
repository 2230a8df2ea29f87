package accumulate

import (
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Findings is what a survey finds in a segment, in a share, or in all shares, besides sums and a sample of rows. Use [NewFindings].
type Findings struct {
	Labels      LabelSet
	Unknown     LabelSet   // rows with labels that are not classes
	Untrained   LabelSet   // rows outside the training split
	ColumnRows  ColumnRows // of training rows, if they are sparse
	Quarantined int64      // quarantined messages
	PassedOver  coverage.PassedOver
	Bad         coverage.BadMessages // of the newest increment of a chain
	Parts       []SurveyedPart       // in order
}

// SurveyedPart is what a survey finds in a partition, or in a segment of it.
type SurveyedPart struct {
	Partition          int
	Covered            coverage.Coverage
	statistics.Chained // of a chain's run
}

// NewFindings returns empty findings.
func NewFindings() Findings {
	return Findings{Labels: LabelSet{}, Unknown: LabelSet{}, Untrained: LabelSet{}, ColumnRows: ColumnRows{}}
}

// Merge adds the findings in the next segment.
func (f *Findings) Merge(next *Findings) error {
	f.Labels.Merge(next.Labels)
	f.Unknown.Merge(next.Unknown)
	f.Untrained.Merge(next.Untrained)
	f.ColumnRows.Merge(next.ColumnRows)
	f.Quarantined += next.Quarantined
	f.PassedOver.Add(next.PassedOver)
	f.Bad.Merge(next.Bad)
	if last := len(f.Parts) - 1; f.Parts[last].Partition == next.Parts[0].Partition {
		return f.Parts[last].merge(&next.Parts[0])
	}
	f.Parts = append(f.Parts, next.Parts...)
	return nil
}

// Covered returns the coverages of the partitions.
func (f *Findings) Covered() (all []coverage.Coverage) {
	for i := range f.Parts {
		all = append(all, f.Parts[i].Covered)
	}
	return all
}

// merge adds a later segment of the partition.
func (p *SurveyedPart) merge(next *SurveyedPart) error {
	p.Skipped, p.Messages = append(p.Skipped, next.Skipped...), append(p.Messages, next.Messages...)
	p.Served, p.Progress = statistics.AddServed(p.Served, next.Served...), next.Progress
	for i, covered := range next.Increments {
		if err := p.Increments[i].Merge(covered); err != nil {
			return err
		}
	}
	return p.Covered.Merge(next.Covered)
}
