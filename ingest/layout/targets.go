package layout

import (
	"errors"
	"fmt"
	"math"
)

// assignTargets assigns the role of target columns.
func (l *Layout) assignTargets() error {
	for i, name := range l.Options.Targets {
		at, err := l.Column(Column(name))
		if err != nil {
			return err
		}
		if l.Cells[at].Role == Target {
			return l.Locate(at, errors.New("this column twice under examples.targets"))
		}
		l.Cells[at].Role, l.Cells[at].At = Target, i
	}
	return nil
}

// CheckTarget returns an error for an invalid target.
func CheckTarget(v float64) error {
	switch {
	case v != v:
		return errors.New("a missing value: expected a number to predict")
	case math.Abs(v) > math.MaxFloat32:
		return fmt.Errorf("%v: expected a finite number to predict, at most %.3g in size", v, math.MaxFloat32)
	}
	return nil
}
