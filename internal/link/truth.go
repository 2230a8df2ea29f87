package link

import "github.com/stagewise/stagewise/internal/kernel"

// Truth is the true values of n rows, y.
type Truth struct {
	// Classes are the classes of rows that have one each (n). A negative class means that y is unknown, or is none of
	// the classes: see [Unknown].
	Classes []int32
	// Targets is y (n × k) of rows of numbers, or of several labels: 1 for each label of the row, 0 for the others. If
	// it has no rows, y is the indicator of the class.
	Targets kernel.Dense
}

// Unknown is the class of a row whose class is known, but is none of the k classes. [Link.Measure] measures such a row as though its class
// were predicted with the smallest probability. Everywhere else it counts as a row whose class is unknown.
const Unknown = -2

// addTo adds y to x, n × k, and clears the rows whose y is not known.
func (t Truth) addTo(x kernel.Dense) {
	for i, class := range t.Classes {
		row := x.Row(i)
		switch {
		case class < 0:
			clear(row)
		case t.Targets.Rows > 0:
			for c, y := range t.Targets.Row(i) {
				row[c] += y
			}
		default:
			row[class]++
		}
	}
}

// Residuals turns predictions (n × k) into y − prediction in place. Rows whose y is not known become 0.
func (t Truth) Residuals(prediction kernel.Dense) {
	for i, p := range prediction.Data {
		prediction.Data[i] = -p
	}
	t.addTo(prediction)
}

// Write writes y into dst (n × k). Rows whose y is not known become 0.
func (t Truth) Write(dst kernel.Dense) {
	clear(dst.Data)
	t.addTo(dst)
}
