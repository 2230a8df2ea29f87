package schemas

import (
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// KindResiduals is the kind of [Residuals].
const KindResiduals Kind = "residuals"

// Residuals is the rows of one examples message after a stage, in their order,
// or a part of them where there are many classes. A row without a label has a
// residual of zeros.
type Residuals struct {
	Identity        // of Visit 0; Parent is the digest of the stage's final weights
	Attempt  string // the publication that this message is of, which its seal names
	Offset   int64  // of the examples message
	Row      int    // the first row of this part
	Classes  int
	Score    []float32 // rows × Classes: in the unit of the stage's link
	Residual []float32 // rows × Classes: y − g(score)
}

func residualSchema(classes int) *arrow.Schema {
	list := arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)
	return arrow.NewSchema([]arrow.Field{{Name: "score", Type: list}, {Name: "residual", Type: list}}, nil)
}

// Encode makes the message. It panics if Score and Residual differ in length or
// are not whole rows, and answers an error if they are more than MaxResidualRows.
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
	value, err := encode(record, mem)
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

// MaxResidualRows is how many rows of so many classes one message may have, at
// least 1. A row of more than about 110,000 classes fits no message.
func MaxResidualRows(classes int) int {
	return max(1, (MaxMessage-8<<10)/(8*classes))
}

// ResidualsHeader reads what a residuals message is, without its values.
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
		return nil, fmt.Errorf("%w: row %d of offset %d", ErrDamaged, row, offset)
	}
	return &Residuals{Identity: id, Attempt: m.Get("attempt"), Offset: int64(offset), Row: row}, nil
}

// DecodeResiduals reads the rows of a residuals message. Errors wrap ErrDamaged.
func DecodeResiduals(m Message, classes int, mem memory.Allocator) (*Residuals, error) {
	r, err := ResidualsHeader(m)
	if err != nil {
		return nil, err
	}
	record, err := decode(m.Value, mem, all)
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

func residualsLayout() Layout {
	return Layout{Kind: KindResiduals, Topic: "residuals", Key: "RUN/residuals/STAGE/0/PARTITION/OFFSET/ROW", Writer: "worker", Reader: "worker"}
}
