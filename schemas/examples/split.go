package examples

import (
	"fmt"
	"math/bits"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Split is the use of an example. The zero value is Train.
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

// Fold is one fold of cross-validation of the training rows. Each row is in exactly one fold. The zero value is no fold.
type Fold struct {
	Number int `json:"number"` // number of the fold, from 0
	Of     int `json:"of"`     // number of folds
}

// Has reports whether a row is in the fold: its hash, as a fraction of 2^64, is at least Number/Of and less than (Number+1)/Of.
func (f Fold) Has(hash uint64) bool {
	place, _ := bits.Mul64(hash, uint64(f.Of))
	return f.Of > 0 && place == uint64(f.Number)
}

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
