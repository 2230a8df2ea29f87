package option

import (
	"errors"
	"math"

	"github.com/dustin/go-humanize"
)

// Bytes is an amount of memory in bytes. A configuration has it as a number, or as a number with a decimal (512MB) or
// binary (1GiB) unit.
type Bytes int64

var errBytes = errors.New("expected a size such as 512MB or 1GiB, or a number of bytes, below 8 EiB")

// UnmarshalText parses text as [Bytes] describes. Text that is no such amount, or is 2^63 bytes or more, is an error.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil {
		return errBytes
	}
	if n > math.MaxInt64 {
		return errBytes
	}
	*b = Bytes(n)
	return nil
}

// String returns the amount in binary units, rounded, as in 1.5 GiB. A negative amount is 0 B.
func (b Bytes) String() string { return humanize.IBytes(uint64(max(b, 0))) }
