package schemas

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindResiduals is the kind of [Residuals].
const KindResiduals wire.Kind = "residuals"

// Residuals have the scores and residuals of one examples message after a stage, row by row. With many values they are only
// a part of the rows. The residuals of a row without a label are zeros.
type Residuals struct {
	wire.Identity           // of Visit 0; Parent is the digest of the stage's final weights
	Attempt       string    `header:"attempt"`      // publication that the message belongs to; the seal names the valid one
	Offset        int64     `header:"offset,count"` // of the examples message
	Row           int       `header:"row,count"`    // first row of this part
	Classes       int       // k
	Score         []float32 // rows × k: in the unit of the stage's link
	Residual      []float32 // rows × k: y − g(score)
	// Votes (rows × k) are the sums of the predictions of finished members, with averaging; nil before the first member is finished, see
	// [Plan.Votes].
	Votes []float32
}

// residualsSchema returns the Arrow schema of a residuals message, with or without votes.
func residualsSchema(classes int, votes bool) *arrow.Schema {
	list := arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)
	fields := []arrow.Field{{Name: "score", Type: list}, {Name: "residual", Type: list}}
	if votes {
		fields = append(fields, arrow.Field{Name: "votes", Type: list})
	}
	return arrow.NewSchema(fields, nil)
}

// Encode encodes the message. It panics if Score, Residual and Votes differ in length or do not consist of complete rows. It returns an
// error if they exceed [wire.MaxMessage]; [MaxResidualsRows] rows always fit.
func (r *Residuals) Encode(mem memory.Allocator) (wire.Message, error) {
	if len(r.Score) != len(r.Residual) || r.Votes != nil && len(r.Votes) != len(r.Score) || r.Classes < 1 || len(r.Score)%r.Classes != 0 {
		panic(fmt.Sprintf("residuals: %d scores, %d residuals, %d votes, %d classes", len(r.Score), len(r.Residual), len(r.Votes), r.Classes))
	}
	schema := residualsSchema(r.Classes, r.Votes != nil)
	columns := make([]stream.Column, schema.NumFields())
	for i := range columns {
		columns[i] = stream.Column{Field: schema.Field(i), Values: [][]float32{r.Score, r.Residual, r.Votes}[i]}
	}
	record := stream.NewRecord(mem, len(r.Score)/r.Classes, nil, columns...)
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err != nil {
		return wire.Message{}, fmt.Errorf("encode residuals of offset %d: %w", r.Offset, err)
	}
	if len(value) > wire.MaxMessage {
		return wire.Message{}, fmt.Errorf("encode residuals of offset %d: %d rows of %d classes take %d bytes, expected at most %d",
			r.Offset, len(r.Score)/r.Classes, r.Classes, len(value), wire.MaxMessage)
	}
	headers := append(append(r.Headers(), wire.HeadersOf(r)...), wire.Header{Key: "schema", Value: wire.Fingerprint(schema)})
	return wire.Message{Key: fmt.Sprintf("%s/%d", r.Key(int(r.Offset)), r.Row), Headers: headers, Value: value}, nil
}

// MaxResidualsRows returns the number of rows that fit into a message, at least 1: a row has 2k values, or 3k with votes. A row of
// more than about 220,000 values does not fit.
func MaxResidualsRows(values int) int {
	return max(1, (wire.MaxMessage-8<<10)/(4*values))
}

// ResidualsHeader reads the headers of a residuals message, but not its value. An error wraps [wire.ErrDamaged].
func ResidualsHeader(m wire.Message) (*Residuals, error) {
	if m.Kind() != KindResiduals {
		return nil, fmt.Errorf("%w: kind %q, expected %q", wire.ErrDamaged, m.Kind(), KindResiduals)
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return nil, err
	}
	r := &Residuals{Identity: id}
	if err := wire.ReadHeaders(m, r); err != nil {
		return nil, err
	}
	return r, nil
}

// DecodeResiduals decodes a residuals message, whose rows must have that number of classes. An error wraps [wire.ErrDamaged].
func DecodeResiduals(m wire.Message, classes int, mem memory.Allocator) (*Residuals, error) {
	r, err := ResidualsHeader(m)
	if err != nil {
		return nil, err
	}
	record, err := stream.Decode(m.Value, mem, nil)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	columns := []*[]float32{&r.Score, &r.Residual}
	if record.Schema().Equal(residualsSchema(classes, true)) {
		columns = append(columns, &r.Votes)
	} else if want := residualsSchema(classes, false); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", wire.ErrDamaged, wire.Fingerprint(record.Schema()), wire.Fingerprint(want))
	}
	r.Classes = classes
	if wire.Nulls(record.Columns()...) > 0 {
		return nil, fmt.Errorf("%w: nulls among residuals", wire.ErrDamaged)
	}
	for i, dst := range columns {
		*dst = valuesOfRows[float32](record.Column(i), classes)
	}
	return r, nil
}

// valuesOfRows returns a copy of the values of a column of lists of that size, row-major; nil if they are of another type.
func valuesOfRows[T float32 | float64](column arrow.Array, size int) []T {
	lists := column.(*array.FixedSizeList)
	all, ok := stream.Raw[T](lists.ListValues())
	if !ok {
		return nil
	}
	first := lists.Data().Offset() * size
	return append([]T{}, all[first:first+lists.Len()*size]...)
}
