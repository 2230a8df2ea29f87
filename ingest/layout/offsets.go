package layout

import (
	"math"
)

// OffsetRows is the number of first rows of the training files that determine which columns need an offset.
const OffsetRows = 4096

// levels is the minimum number of float32 values within the standard deviation of a column.
const levels = 1024

// Offsets are subtracted from the values of columns before the conversion to float32, by column name.
type Offsets map[string]float64

// offset returns the offset of a column: from the configuration, or else from the first rows.
func (o Options) offset(name string) float64 {
	if offset, said := o.Offsets[name]; said {
		return offset
	}
	return o.offsets[name]
}

// Spreads are the spreads of the numbers of columns, by column name.
type Spreads map[string]*spread

// spread accumulates the moments of a column.
type spread struct {
	n, shift, sum, squares float64
	inexact                bool // some numbers are not exact in float32
	age                    bool // the column is ages of times, with shift the smallest
}

// Add adds a number of a column; NaN is ignored.
func (s Spreads) Add(name string, v float64) {
	if v-v != 0 { // 0 only for finite v
		return
	}
	at := s[name]
	if at == nil {
		at = &spread{shift: v}
		s[name] = at
	}
	d := v - at.shift
	at.n, at.sum, at.squares = at.n+1, at.sum+d, at.squares+d*d
	at.inexact = at.inexact || float64(float32(v)) != v
}

// Offset returns the offset of the numbers; 0 if float32 resolves their standard deviation without one. It is a multiple
// of a power of 2 near the standard deviation, so it has few digits, and is not the number of any row.
func (s *spread) Offset() float64 {
	if s.age {
		return s.shift
	}
	mean := s.sum / s.n
	deviation := math.Sqrt(max(s.squares/s.n-mean*mean, 0))
	mean += s.shift
	step := math.Abs(mean) / (1 << 24)
	switch {
	case math.IsNaN(deviation), math.IsInf(deviation, 0): // of numbers outside the range of float32, with or without an offset
		return 0
	case !s.inexact || step*levels <= deviation:
		return 0
	case deviation == 0 && step < 1: // a constant such as 0.1; different integers differ by at least 1
		return 0
	case deviation == 0:
		return mean
	}
	unit := math.Exp2(math.Ceil(math.Log2(deviation)))
	return math.Round(mean/unit) * unit
}

// WithOffsets returns the options with the offsets for these spreads.
func (o Options) WithOffsets(found Spreads) Options {
	for name, s := range found {
		if offset := s.Offset(); offset != 0 {
			if o.offsets == nil {
				o.offsets = Offsets{}
			}
			o.offsets[name] = offset
		}
	}
	return o
}

// Offsets returns the offsets of the columns that have more than one number and need an offset.
func (s Spreads) Offsets() Offsets {
	needed := Offsets{}
	for name, of := range s {
		if offset := of.Offset(); offset != 0 && of.n > 1 {
			needed[name] = offset
		}
	}
	return needed
}
