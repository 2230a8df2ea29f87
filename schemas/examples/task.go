package examples

// Task is the kind of prediction of a model.
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
