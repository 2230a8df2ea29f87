package stream

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// validate checks that the buffers of an array hold as many values as its length and offsets say. Arrow trusts these
// numbers and would read beyond the buffers. Types that no message of stagewise has are refused.
func validate(data arrow.ArrayData) error {
	end := data.Offset() + data.Len()
	if data.Len() < 0 || data.Offset() < 0 || end < 0 || end > math.MaxInt32 {
		return fmt.Errorf("%d values from %d", data.Len(), data.Offset())
	}
	if n := data.NullN(); n < array.UnknownNullCount || n > data.Len() {
		return fmt.Errorf("%d nulls among %d values", n, data.Len())
	}
	buffer := func(i int) int {
		if i >= len(data.Buffers()) || data.Buffers()[i] == nil {
			return 0
		}
		return data.Buffers()[i].Len()
	}
	if n := buffer(0); data.NullN() != 0 && data.DataType().ID() != arrow.NULL && n*8 < end {
		return fmt.Errorf("a validity bitmap of %d bytes for %d values", n, end)
	}
	for _, child := range data.Children() {
		if err := validate(child); err != nil {
			return err
		}
	}
	switch t := data.DataType().(type) {
	case *arrow.NullType:
		return nil
	case *arrow.StringType:
		return validateOffsets(data, end, buffer(2))
	case *arrow.ListType:
		return validateOffsets(data, end, data.Children()[0].Len())
	case *arrow.FixedSizeListType:
		if n := data.Children()[0].Len(); int64(n) < int64(end)*int64(t.Len()) {
			return fmt.Errorf("%d values for %d lists of %d", n, end, t.Len())
		}
		return nil
	case *arrow.StructType:
		for _, child := range data.Children() {
			if child.Len() < end {
				return fmt.Errorf("%d values for %d structs", child.Len(), end)
			}
		}
		return nil
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type,
		*arrow.Float32Type, *arrow.Float64Type:
		if width := t.(arrow.FixedWidthDataType).Bytes(); buffer(1) < end*width {
			return fmt.Errorf("%d bytes for %d values of type %v", buffer(1), end, t)
		}
		return nil
	}
	return fmt.Errorf("type %v is not read", data.DataType())
}

// validateOffsets checks the offsets of an array of texts or lists: they must ascend from 0 or more to at most limit,
// the number of bytes or values that they point into. end is the index after the array's last value.
func validateOffsets(data arrow.ArrayData, end, limit int) error {
	if data.Len() == 0 {
		return nil
	}
	b := data.Buffers()[1]
	if b == nil || b.Len() < (end+1)*arrow.Int32SizeBytes {
		return fmt.Errorf("too few offsets for %d values", end)
	}
	last := int32(0)
	for _, o := range arrow.Int32Traits.CastFromBytes(b.Bytes())[data.Offset() : end+1] {
		if o < last || int(o) > limit {
			return fmt.Errorf("offset %d after %d, of %d", o, last, limit)
		}
		last = o
	}
	return nil
}
