package schemas

import (
	"github.com/stagewise/stagewise/schemas/examples"
)

// LabelsSeveral is the value of Plan.Labels for rows that may have several labels each.
const LabelsSeveral = "several"

// Task returns what the versions of the plan's run predict.
func (p *Plan) Task() examples.Task {
	switch {
	case len(p.Targets) > 0:
		return examples.Numbers
	case p.Labels == LabelsSeveral:
		return examples.SeveralLabels
	}
	return examples.OneLabel
}
