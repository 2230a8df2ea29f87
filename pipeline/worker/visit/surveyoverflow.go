package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// leaveOut treats overflowing rows of the current message as unlabelled, and records them. The error is that of
// noteOverflow.
func (p *surveyor) leaveOut(found *Findings, what string, overflowing []int, rows accumulate.Rows) error {
	for _, i := range overflowing {
		rows.Classes[i] = examples.Unlabelled
	}
	return p.noteOverflow(found, what, overflowing)
}

// noteOverflow records overflowing rows of the current message. It returns an error if the run is configured to stop at
// them.
func (p *surveyor) noteOverflow(found *Findings, what string, rows []int) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row int) bool { return slices.Contains(p.leftOut, row) })
	if len(rows) == 0 {
		return nil
	}
	err := &overflowError{What: what, Rows: rows}
	if p.Plan.OnBadMessage == schemas.StopOnBadMessage {
		return err
	}
	p.leftOut, p.reasons = append(p.leftOut, rows...), append(p.reasons, err.Error())
	found.passedOver.Count(coverage.Overflowing, int64(len(rows)))
	return nil
}
