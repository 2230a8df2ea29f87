// Package residuals defines the message of the residuals topic: the scores and residuals that a stage passes to the next one, for the
// rows of an examples message.
package residuals

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Kind is the kind of a [Message].
const Kind wire.Kind = "residuals"

// A Message has the scores and residuals of one examples message after a stage, row by row. With many values it has only
// a part of the rows. The residuals of a row without a label are zeros.
type Message struct {
	wire.Identity           // of Visit 0; Parent is the digest of the stage's final weights
	Attempt       string    `header:"attempt"`      // publication that the message belongs to; the seal names the valid one
	Offset        int64     `header:"offset,count"` // of the examples message
	Row           int       `header:"row,count"`    // first row of this part
	Classes       int       // k
	Score         []float32 // rows × k: in the unit of the stage's link
	Residual      []float32 // rows × k: y − g(score)
	// Votes (rows × k) are the sums of the predictions of finished members, with averaging; nil before the first member is finished, see
	// [schemas.Plan.Votes].
	Votes []float32
}

// Schema returns the Arrow schema of a residuals message, with or without votes.
func Schema(classes int, votes bool) *arrow.Schema {
	list := arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)
	fields := []arrow.Field{{Name: "score", Type: list}, {Name: "residual", Type: list}}
	if votes {
		fields = append(fields, arrow.Field{Name: "votes", Type: list})
	}
	return arrow.NewSchema(fields, nil)
}

// Encode encodes the message. It panics if Score, Residual and Votes differ in length or do not consist of complete rows. It returns an
// error if they exceed [wire.MaxMessage]; [MaxRows] rows always fit.
func (r *Message) Encode(mem memory.Allocator) (wire.Message, error) {
	columns := [][]float32{r.Score, r.Residual}
	if r.Votes != nil {
		columns = append(columns, r.Votes)
	}
	if len(r.Score) != len(r.Residual) || r.Votes != nil && len(r.Votes) != len(r.Score) || r.Classes < 1 || len(r.Score)%r.Classes != 0 {
		panic(fmt.Sprintf("residuals: %d scores, %d residuals, %d votes, %d classes", len(r.Score), len(r.Residual), len(r.Votes), r.Classes))
	}
	schema := Schema(r.Classes, r.Votes != nil)
	b := array.NewRecordBuilder(mem, schema)
	defer b.Release()
	for i, values := range columns {
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
		return wire.Message{}, fmt.Errorf("encode residuals of offset %d: %w", r.Offset, err)
	}
	if len(value) > wire.MaxMessage {
		return wire.Message{}, fmt.Errorf("encode residuals of offset %d: %d rows of %d classes take %d bytes, expected at most %d",
			r.Offset, len(r.Score)/r.Classes, r.Classes, len(value), wire.MaxMessage)
	}
	headers := append(append(r.Headers(), wire.HeadersOf(r)...), wire.Header{Key: "schema", Value: wire.Fingerprint(schema)})
	return wire.Message{Key: fmt.Sprintf("%s/%d", r.Key(int(r.Offset)), r.Row), Headers: headers, Value: value}, nil
}

// MaxRows returns how many rows fit a message, at least 1: a row has 2k values, or 3k with votes. A row of more than about 220,000 values
// does not fit.
func MaxRows(values int) int {
	return max(1, (wire.MaxMessage-8<<10)/(4*values))
}

// Header reads the headers of a residuals message, but not its value. An error wraps [wire.ErrDamaged].
func Header(m wire.Message) (*Message, error) {
	if m.Kind() != Kind {
		return nil, fmt.Errorf("%w: kind %q, expected %q", wire.ErrDamaged, m.Kind(), Kind)
	}
	id, err := wire.IdentityOf(m)
	if err != nil {
		return nil, err
	}
	r := &Message{Identity: id}
	if err := wire.ReadHeaders(m, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Decode decodes a residuals message, whose rows must have that number of classes. An error wraps [wire.ErrDamaged].
func Decode(m wire.Message, classes int, mem memory.Allocator) (*Message, error) {
	r, err := Header(m)
	if err != nil {
		return nil, err
	}
	record, err := stream.Decode(m.Value, mem, nil)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	columns := []*[]float32{&r.Score, &r.Residual}
	if record.Schema().Equal(Schema(classes, true)) {
		columns = append(columns, &r.Votes)
	} else if want := Schema(classes, false); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", wire.ErrDamaged, wire.Fingerprint(record.Schema()), wire.Fingerprint(want))
	}
	r.Classes = classes
	for i, dst := range columns {
		column := record.Column(i).(*array.FixedSizeList)
		values := column.ListValues().(*array.Float32)
		if column.NullN() > 0 || values.NullN() > 0 {
			return nil, fmt.Errorf("%w: nulls among residuals", wire.ErrDamaged)
		}
		first := column.Data().Offset() * classes
		*dst = append([]float32(nil), values.Float32Values()[first:first+column.Len()*classes]...)
	}
	return r, nil
}
