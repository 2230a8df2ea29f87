package schemas

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// KindResiduals is the kind of a [Residuals] message.
const KindResiduals Kind = "residuals"

// Residuals holds the scores and residuals of one examples message after a stage, row by row. With many classes it holds a
// part of the rows. A row without a label has a residual of zeros.
type Residuals struct {
	Identity           // of Visit 0; Parent is the digest of the stage's final weights
	Attempt  string    // the publication that the message belongs to; the seal names the one that counts
	Offset   int64     // of the examples message
	Row      int       // the first row of this part
	Classes  int       // k
	Score    []float32 // rows × k: in the unit of the stage's link
	Residual []float32 // rows × k: y − g(score)
}

// residualSchema returns the Arrow schema of a residuals message.
func residualSchema(classes int) *arrow.Schema {
	list := arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)
	return arrow.NewSchema([]arrow.Field{{Name: "score", Type: list}, {Name: "residual", Type: list}}, nil)
}

// Encode encodes the message. It panics if Score and Residual differ in length or are not whole rows. It returns an error
// if they exceed [MaxMessage]; [MaxResidualRows] always fit.
func (r *Residuals) Encode(mem memory.Allocator) (Message, error) {
	if len(r.Score) != len(r.Residual) || r.Classes < 1 || len(r.Score)%r.Classes != 0 {
		panic(fmt.Sprintf("schemas: %d scores, %d residuals, %d classes", len(r.Score), len(r.Residual), r.Classes))
	}
	schema := residualSchema(r.Classes)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i, values := range [][]float32{r.Score, r.Residual} {
		lists := b.Field(i).(*array.FixedSizeListBuilder)
		lists.Reserve(len(values) / r.Classes)
		for range len(values) / r.Classes {
			lists.Append(true)
		}
		lists.ValueBuilder().(*array.Float32Builder).AppendValues(values, nil)
	}
	record := b.NewRecord()
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err != nil {
		return Message{}, fmt.Errorf("encode residuals of offset %d: %w", r.Offset, err)
	}
	if len(value) > MaxMessage {
		return Message{}, fmt.Errorf("encode residuals of offset %d: %d rows of %d classes take %d bytes, expected at most %d",
			r.Offset, len(r.Score)/r.Classes, r.Classes, len(value), MaxMessage)
	}
	headers := append(r.headers(), Header{"attempt", r.Attempt}, Header{"offset", strconv.FormatInt(r.Offset, 10)}, Header{"row", strconv.Itoa(r.Row)}, Header{"schema", fingerprint(schema)})
	return Message{Key: fmt.Sprintf("%s/%d", r.Key(int(r.Offset)), r.Row), Headers: headers, Value: value}, nil
}

// MaxResidualRows returns how many rows fit a message, at least 1. A row of more than about 110,000 classes fits none.
func MaxResidualRows(classes int) int {
	return max(1, (MaxMessage-8<<10)/(8*classes))
}

// ResidualsHeader reads the headers of a residuals message, and none of its values. An error wraps [ErrDamaged].
func ResidualsHeader(m Message) (*Residuals, error) {
	if m.Kind() != KindResiduals {
		return nil, fmt.Errorf("%w: kind %q, expected %q", ErrDamaged, m.Kind(), KindResiduals)
	}
	id, err := IdentityOf(m)
	if err != nil {
		return nil, err
	}
	offset, err := m.number("offset")
	if err != nil {
		return nil, err
	}
	row, err := m.number("row")
	if err != nil {
		return nil, err
	}
	if offset < 0 || row < 0 {
		return nil, fmt.Errorf("%w: row %d of offset %d, expected both to be at least 0", ErrDamaged, row, offset)
	}
	return &Residuals{Identity: id, Attempt: m.Get("attempt"), Offset: int64(offset), Row: row}, nil
}

// DecodeResiduals decodes a residuals message, whose rows must have that number of classes. An error wraps [ErrDamaged].
func DecodeResiduals(m Message, classes int, mem memory.Allocator) (*Residuals, error) {
	r, err := ResidualsHeader(m)
	if err != nil {
		return nil, err
	}
	record, err := stream.Decode(m.Value, mem, nil)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	if want := residualSchema(classes); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", ErrDamaged, fingerprint(record.Schema()), fingerprint(want))
	}
	r.Classes = classes
	for i, dst := range []*[]float32{&r.Score, &r.Residual} {
		column := record.Column(i).(*array.FixedSizeList)
		values := column.ListValues().(*array.Float32)
		if column.NullN() > 0 || values.NullN() > 0 {
			return nil, fmt.Errorf("%w: nulls among residuals", ErrDamaged)
		}
		first := column.Data().Offset() * classes
		*dst = append([]float32(nil), values.Float32Values()[first:first+column.Len()*classes]...)
	}
	return r, nil
}
