package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// parquetPairs are the two leaves of a column of sparse rows.
type parquetPairs struct {
	index, value parquetEntries
	nullable     bool // rows may be null
}

// pairsOf returns the pairs of a column with two leaves: lists of index and value, or maps; nil if it is something else.
func pairsOf(first, second *parquetLeaf, root schema.Node) *parquetPairs {
	index, value := first, second
	names := []string{last(first.descriptor), last(second.descriptor)}
	if slices.Equal(names, []string{"value", "index"}) {
		index, value = second, first
	} else if !slices.Equal(names, []string{"index", "value"}) && !slices.Equal(names, []string{"key", "value"}) {
		return nil
	}
	for _, c := range []*schema.Column{index.descriptor, value.descriptor} {
		if depth := len(c.ColumnPath()); c.MaxRepetitionLevel() != 1 || depth < 3 || depth > 4 {
			return nil
		}
	}
	if parquetScalar(index.descriptor) != tabular.Whole || !tabular.IsNumber(parquetScalar(value.descriptor)) {
		return nil
	}
	return &parquetPairs{parquetEntries{leaf: index}, parquetEntries{leaf: value}, root.RepetitionType() == parquet.Repetitions.Optional}
}

// last returns the name of a leaf within its column.
func last(c *schema.Column) string {
	path := c.ColumnPath()
	return path[len(path)-1]
}

// row reads the next row. The slices are valid until the next call.
func (p *parquetPairs) row(indices []int64, values []float64) ([]int64, []float64, error) {
	listed := int16(1) // definition level of a nullable entry
	if p.nullable {
		listed++
	}
	indices, values = indices[:0], values[:0]
	for first := true; ; first = false {
		index, err := p.index.peek()
		if err != nil {
			return nil, nil, err
		}
		value, err := p.value.peek()
		if err != nil {
			return nil, nil, err
		}
		switch ends := index == nil || index.repetition == 0; {
		case (index == nil) != (value == nil), index != nil && index.repetition != value.repetition:
			return nil, nil, errors.New("the file is damaged: indices and values of other rows")
		case first && (index == nil || index.repetition != 0):
			return nil, nil, fmt.Errorf("fewer values than the file announces: %w", io.ErrUnexpectedEOF)
		case !first && ends:
			return indices, values, nil
		}
		p.index.at, p.value.at = p.index.at+1, p.value.at+1
		switch {
		case index.definition == 0 && p.nullable:
			return nil, nil, errors.New("null instead of a sparse row")
		case index.definition < listed: // an empty list
			continue
		case index.null || value.null:
			return nil, nil, fmt.Errorf("entry %d is null: expected an index and a value", len(indices))
		}
		n := index.whole
		if index.unsigned && n < 0 {
			n = math.MaxInt64 // beyond the last column in any case
		}
		indices, values = append(indices, n), append(values, value.float())
	}
}

// Sparse implements sparseLists.
func (t *parquetTable) Sparse(column int, put func(row int, indices []int64, values []float64) error) error {
	var indices []int64
	var values []float64
	var err error
	for row := range t.rows {
		if indices, values, err = t.columns[column].pairs.row(indices, values); err != nil {
			return fmt.Errorf("row %d, counted from 0: %w", t.read+int64(row), err)
		}
		if err := put(row, indices, values); err != nil {
			return err
		}
	}
	return nil
}

// parquetEntry is a value of a leaf with its levels.
type parquetEntry struct {
	parquetValue
	definition, repetition int16
}

// parquetEntries reads a leaf whose rows end where the next one starts.
type parquetEntries struct {
	leaf  *parquetLeaf
	ahead []parquetEntry
	at    int // index of the next value
}

// peek returns the next value; nil after the last. It is valid until the next call.
func (e *parquetEntries) peek() (*parquetEntry, error) {
	for e.at == len(e.ahead) {
		e.ahead, e.at = e.ahead[:0], 0
		l := e.leaf
		if l.chunk == nil || !l.chunk.HasNext() {
			if l.group == l.file.NumRowGroups() && (l.chunk == nil || l.chunk.Err() == nil) {
				return nil, nil
			}
			if err := l.advance(); err != nil {
				return nil, err
			}
			continue
		}
		read, err := l.some(maxValues, func(_ int, v *parquetValue, definition, repetition int16) error {
			e.ahead = append(e.ahead, parquetEntry{*v, definition, repetition})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if read == 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return &e.ahead[e.at], nil
}
