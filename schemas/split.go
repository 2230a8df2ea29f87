package schemas

import "fmt"

// Split says what an example is for. The zero value is Train.
type Split uint8

const (
	Train   Split = iota // fitted
	Holdout              // scored, and may stop a stage
	Test                 // scored
	Splits  = 3          // how many there are
)

// String is the name that the split column of an examples message carries.
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

// ParseSplit is the inverse of String. The empty name is Train.
func ParseSplit(name string) (Split, error) {
	switch name {
	case "", "train":
		return Train, nil
	case "holdout":
		return Holdout, nil
	case "test":
		return Test, nil
	}
	return 0, fmt.Errorf("split %s: expected train, holdout or test", quote(name))
}
