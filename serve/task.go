package serve

import "github.com/stagewise/stagewise/schemas"

// predictsNumbers reports whether answers have numbers in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == schemas.Numbers }
