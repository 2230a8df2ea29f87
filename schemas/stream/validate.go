package stream

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// validate checks that the buffers of an array are large enough for its length and offsets. Arrow trusts these numbers
// and would read beyond the buffers. Types that no message of stagewise has are rejected.
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
	case *arrow.StringType, *arrow.BinaryType:
		return validateOffsets[int32](data, end, buffer(2))
	case *arrow.LargeStringType:
		return validateOffsets[int64](data, end, buffer(2))
	case *arrow.ListType, *arrow.MapType:
		return validateOffsets[int32](data, end, data.Children()[0].Len())
	case *arrow.LargeListType:
		return validateOffsets[int64](data, end, data.Children()[0].Len())
	case *arrow.DictionaryType:
		if err := validate(data.Dictionary()); err != nil {
			return fmt.Errorf("dictionary: %w", err)
		}
		if width := t.IndexType.(arrow.FixedWidthDataType).Bytes(); buffer(1) < end*width {
			return fmt.Errorf("%d bytes for %d indices of type %v", buffer(1), end, t.IndexType)
		}
		encoded, limit := array.NewDictionaryData(data), data.Dictionary().Len()
		defer encoded.Release()
		indices := ValuesOf(encoded.Indices())
		for i := range encoded.Len() { // the index of a null value may be anything
			if at := indices.whole(i); uint64(at) >= uint64(limit) && encoded.IsValid(i) {
				return fmt.Errorf("index %d into a dictionary of %d values", at, limit)
			}
		}
		return nil
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
	case *arrow.BooleanType:
		if buffer(1)*8 < end {
			return fmt.Errorf("%d bytes for %d values of type %v", buffer(1), end, t)
		}
		return nil
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type,
		*arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type,
		*arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type,
		*arrow.TimestampType, *arrow.Date32Type, *arrow.Date64Type, *arrow.Time32Type, *arrow.Time64Type, *arrow.DurationType,
		*arrow.Decimal128Type, *arrow.Decimal256Type, *arrow.FixedSizeBinaryType:
		if width := t.(arrow.FixedWidthDataType).Bytes(); buffer(1) < end*width {
			return fmt.Errorf("%d bytes for %d values of type %v", buffer(1), end, t)
		}
		return nil
	}
	return fmt.Errorf("type %v is not supported", data.DataType())
}

// validateOffsets checks the offsets of an array of texts or lists: they must ascend from 0 or more to at most limit,
// the number of bytes or values that they point into. end is the index after the array's last value.
func validateOffsets[T int32 | int64](data arrow.ArrayData, end, limit int) error {
	b := data.Buffers()[1]
	switch few := b == nil || b.Len()/int(unsafe.Sizeof(T(0))) < end+1; {
	case few && data.Len() == 0: // Arrow allows none; if there is one, it is read when the array is encoded
		return nil
	case few:
		return fmt.Errorf("too few offsets for %d values", end)
	}
	last := T(0)
	for _, o := range arrow.GetData[T](b.Bytes())[data.Offset() : end+1] {
		if o < last || int64(o) > int64(limit) {
			return fmt.Errorf("offset %d after %d, of %d", o, last, limit)
		}
		last = o
	}
	return nil
}
