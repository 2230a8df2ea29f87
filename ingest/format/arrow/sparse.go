package arrow

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/input"
)

// arePairs reports whether the values of a type are sparse rows: lists of index and value, as in examples messages, or
// maps.
func arePairs(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.MapType:
		return arrowKind(t.KeyType()) == tabular.Whole && tabular.IsNumber(arrowKind(t.ItemType()))
	case *arrow.ListType, *arrow.LargeListType:
		pair, ok := t.(arrow.ListLikeType).Elem().(*arrow.StructType)
		if !ok || pair.NumFields() != 2 {
			return false
		}
		index, hasIndex := pair.FieldByName("index")
		value, hasValue := pair.FieldByName("value")
		return hasIndex && hasValue && arrowKind(index.Type) == tabular.Whole && tabular.IsNumber(arrowKind(value.Type))
	}
	return false
}

// Sparse implements sparseLists.
func (t *arrowTable) Sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	if t.reserve != nil {
		var all input.Unpacked
		rest, at := t.rows, t.from
		for _, b := range t.batches {
			if n := min(rest, int(b.NumRows())-at); n > 0 {
				from, _ := b.Column(column).(array.ListLike).ValueOffsets(at)
				_, to := b.Column(column).(array.ListLike).ValueOffsets(at + n - 1)
				all.Values, rest, at = all.Values+int(to-from), rest-n, 0
			}
		}
		if err := t.reserve(all); err != nil {
			return err
		}
	}
	var indices []int64
	var values []float64
	row, at := 0, t.from
	for _, b := range t.batches {
		lists := b.Column(column).(array.ListLike)
		index, value, err := cellsOfPairs(lists)
		if err != nil {
			return err
		}
		for ; at < int(b.NumRows()) && row < t.rows; row, at = row+1, at+1 {
			place := t.read + int64(row)
			if lists.IsNull(at) {
				return fmt.Errorf("row %d, counted from 0: null instead of a sparse row", place)
			}
			indices, values = indices[:0], values[:0]
			from, to := lists.ValueOffsets(at)
			for i := int(from); i < int(to); i++ {
				if lists.ListValues().IsNull(i) || index.isNull(i) || value.isNull(i) {
					return fmt.Errorf("row %d, counted from 0: entry %d is null: expected an index and a value", place, i-int(from))
				}
				n := index.whole(i)
				if index.unsigned && n < 0 {
					n = math.MaxInt64 // beyond the last column in any case
				}
				indices, values = append(indices, n), append(values, value.floatAt(i))
			}
			if err := put(row, indices, values); err != nil {
				return err
			}
		}
		at = 0
	}
	return nil
}

// cellsOfPairs returns the indices and the values of all lists.
func cellsOfPairs(lists array.ListLike) (index, value arrowCells, err error) {
	pairs := lists.ListValues().(*array.Struct)
	indexAt, valueAt := 0, 1
	if _, isMap := lists.(*array.Map); !isMap {
		of := pairs.DataType().(*arrow.StructType)
		indexAt, _ = of.FieldIdx("index")
		valueAt = 1 - indexAt
	}
	if index, err = cellsOf(pairs.Field(indexAt)); err == nil {
		value, err = cellsOf(pairs.Field(valueAt))
	}
	return index, value, err
}
