package statistics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// tensorServed is the name of the served errors: how the served answers agree with the labels of an update's training rows.
const tensorServed = "served" // [n, 4]: version, Σw, rows, Σw of wrong rows

const servedFields = 4

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

func servedTensor(served []ServedLosses) wire.Tensor[float64] {
	data := make([]float64, 0, servedFields*len(served))
	for _, s := range served {
		data = append(data, float64(s.Version), s.Weight, s.Rows, s.Errors)
	}
	return wire.Matrix(tensorServed, len(served), servedFields, data)
}

func servedOf(t wire.Tensor[float64]) ([]ServedLosses, error) {
	if len(t.Shape) != 2 || t.Shape[1] != servedFields || len(t.Text) > 0 {
		return nil, &wire.ShapeError{Tensor: t.Name, Got: t.Shape, Want: []int{-1, servedFields}}
	}
	served := make([]ServedLosses, t.Shape[0])
	for i := range served {
		at := t.Data[i*servedFields:]
		losses := Losses{Weight: at[1], Rows: at[2], Errors: at[3]}
		if err := losses.check(); err != nil {
			return nil, fmt.Errorf("version %v: %w", at[0], err)
		}
		if v := at[0]; !(v >= 1 && v <= examples.MaxVersion) || i > 0 && v <= float64(served[i-1].Version) {
			return nil, fmt.Errorf("version %v at place %d: expected ascending versions, from 1", v, i)
		}
		served[i] = ServedLosses{int(at[0]), losses.Weight, losses.Rows, losses.Errors}
	}
	return served, nil
}
