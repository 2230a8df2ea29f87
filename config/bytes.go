package config

import (
	"math"

	"github.com/dustin/go-humanize"
)

// Bytes is an amount of memory: in a configuration a number, or a number with a unit, decimal (512MB) or binary (1GiB).
type Bytes int64

// UnmarshalText reads what [Bytes] describes.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil {
		return err
	}
	*b = Bytes(min(n, math.MaxInt64))
	return nil
}

// String is the amount in binary units, rounded to three digits.
func (b Bytes) String() string { return humanize.IBytes(uint64(max(b, 0))) }
