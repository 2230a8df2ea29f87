package serve

import "github.com/stagewise/stagewise/schemas"

// predictsNumbers reports whether answers have numbers in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == schemas.Numbers }

// given returns what gives a row its labels, if it may have several; nil if it has one.
func (v *version) given() func(probabilities []float32) []string {
	if v.Task() != schemas.SeveralLabels {
		return nil
	}
	return v.Given
}
