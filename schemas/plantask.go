package schemas

import (
	"github.com/stagewise/stagewise/schemas/examples"
)

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
