package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Split says what an example is used for. The zero value is Train.
type Split uint8

// The splits. Splits is their number.
const (
	Train   Split = iota // fitted
	Holdout              // scored, and may stop a stage
	Test                 // scored
	Splits  = 3
)

// String returns the name of the split, as in the column `split` of an examples message.
func (s Split) String() string {
	switch s {
	case Train:
		return "train"
	case Holdout:
		return "holdout"
	case Test:
		return "test"
	}
	return fmt.Sprintf("split(%d)", uint8(s))
}

// ParseSplit is the inverse of [Split.String]. It returns Train for the empty name, and an error for an unknown one.
func ParseSplit(name string) (Split, error) {
	switch name {
	case "", "train":
		return Train, nil
	case "holdout":
		return Holdout, nil
	case "test":
		return Test, nil
	}
	return 0, fmt.Errorf("split %s: expected train, holdout or test", stream.Quote(name))
}
