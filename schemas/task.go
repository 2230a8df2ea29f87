package schemas

// Task is what a model predicts for a row.
type Task uint8

// The tasks.
const (
	OneLabel      Task = iota // one of k labels, which is its class
	SeveralLabels             // which of k labels it has
	Numbers                   // k numbers
)

// Noun returns what k counts.
func (t Task) Noun() string {
	switch t {
	case SeveralLabels:
		return "label"
	case Numbers:
		return "number"
	}
	return "class"
}

// LabelsSeveral is the value of Plan.Labels for rows that may have several labels each.
const LabelsSeveral = "several"

// Task returns what the versions of the plan's run predict.
func (p *Plan) Task() Task {
	switch {
	case len(p.Targets) > 0:
		return Numbers
	case p.Labels == LabelsSeveral:
		return SeveralLabels
	}
	return OneLabel
}
