package examples

// Task is the prediction task of a model.
type Task uint8

// The tasks.
const (
	OneLabel      Task = iota // single-label: one of k classes
	SeveralLabels             // multi-label: any of k labels
	Numbers                   // regression: k targets
)

// Noun returns the name of what k counts.
func (t Task) Noun() string {
	switch t {
	case SeveralLabels:
		return "label"
	case Numbers:
		return "number"
	}
	return "class"
}
