package statistics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
)

// ServedLosses is the error of a version's served answers, given the labels of the rows.
type ServedLosses struct {
	Version int
	Weight  float64 // Σw
	Rows    float64 // number of rows
	Errors  float64 // Σw of the rows with another label
}

// ErrorPercent returns the weighted percentage of wrong rows, or 0 if the weight is 0.
func (s ServedLosses) ErrorPercent() float64 { return 100 * ratio(s.Errors, s.Weight) }

// AddServed adds the errors on further rows. Both lists, and the result, are in the order of the versions.
func AddServed(to []ServedLosses, more ...ServedLosses) []ServedLosses {
	for _, s := range more {
		i, found := slices.BinarySearchFunc(to, s.Version, func(a ServedLosses, version int) int { return cmp.Compare(a.Version, version) })
		if !found {
			to = slices.Insert(to, i, ServedLosses{Version: s.Version})
		}
		to[i].Weight += s.Weight
		to[i].Rows += s.Rows
		to[i].Errors += s.Errors
	}
	return to
}

// checkServed returns an error unless the errors are possible and the versions ascend.
func checkServed(served []ServedLosses) error {
	for i, s := range served {
		losses := Losses{Weight: s.Weight, Rows: s.Rows, Errors: s.Errors}
		if err := losses.check(); err != nil {
			return fmt.Errorf("version %d: %w", s.Version, err)
		}
		if s.Version < 1 || s.Version > examples.MaxVersion || i > 0 && s.Version <= served[i-1].Version {
			return fmt.Errorf("version %d at place %d: expected ascending versions, from 1", s.Version, i)
		}
	}
	return nil
}
