package tabular

import "github.com/stagewise/stagewise/schemas/value"

// maxDigits limits the bytes of a decimal number, because more take too long.
const maxDigits = 1 << 10

// Decimal returns a decimal number from its unscaled value, in big-endian two's complement, and its scale.
func Decimal(digits []byte, scale int) Cell {
	switch {
	case len(digits) == 0:
		return Integer(0)
	case len(digits) > maxDigits || scale > value.MaxScale || scale < -value.MaxScale:
		return Object()
	}
	unscaled := value.BigEndian(digits)
	if scale == 0 && unscaled.IsInt64() {
		return Integer(unscaled.Int64())
	}
	return Float(value.Decimal(unscaled, scale))
}
