package parquet

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// types are what a file says of its columns, beyond their nodes.
type types struct {
	leaves  []format.LogicalTypeValue // by leaf
	written map[string]arrow.DataType // Arrow types from which columns were written, by name, as far as known
}

// arrowSchema is the metadata key of the Arrow schema of files written from Arrow.
const arrowSchema = "ARROW:schema"

func typesOf(file *parquet.File) (t types) {
	for _, element := range file.Metadata().Schema {
		if element.NumChildren.V == 0 && element.Type.Valid {
			t.leaves = append(t.leaves, element.LogicalType.Value)
		}
	}
	t.written = map[string]arrow.DataType{}
	text, _ := file.Lookup(arrowSchema)
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return t
	}
	r, err := stream.NewReader(bytes.NewReader(content), false, memory.DefaultAllocator)
	if err != nil {
		return t // only a hint
	}
	for _, f := range r.Schema().Fields() {
		t.written[f.Name] = f.Type
	}
	return t
}

// leaf reads the values of a column without columns within it, one row group after the other.
type leaf struct {
	file     *parquet.File
	column   *parquet.Column
	nullable bool // the column of the file, of which this is a part, may be null
	present  int  // definition level of an item of a list, which may be null

	kind      tabular.Kind // of a value, whatever it is a part of
	name      string       // of the type
	advice    string
	unsigned  bool
	scale     int           // of a decimal
	precision int           // of a decimal
	decimal   bool          // a value is unscaled
	half      bool          // a value is a float16
	unit      time.Duration // of a time; 0: another value
	zone      *time.Location

	group  int                            // next row group
	values parquet.ColumnChunkValueReader // of the row group before; nil: all were read
	ahead  []parquet.Value
	at     int // of the next value in ahead
}

// day is the unit of dates.
const day = 24 * time.Hour

// newLeaf returns a reader of a leaf.
func newLeaf(file *parquet.File, of *parquet.Column, types types) *leaf {
	l := &leaf{file: file, column: of, nullable: file.Root().Column(of.Path()[0]).Optional(), present: of.MaxDefinitionLevel(), zone: time.UTC}
	if of.Optional() {
		l.present--
	}
	var logical format.LogicalTypeValue
	if i := of.Index(); i < len(types.leaves) {
		logical = types.leaves[i]
	}
	if known := of.Type().LogicalType(); logical == nil && known != nil { // of an older annotation
		logical = known.Value
	}
	kind := of.Type().Kind()
	l.name = strings.ToLower(kind.String())
	if logical != nil {
		name, _, _ := strings.Cut(logical.String(), "(")
		l.name = strings.ToLower(name)
	}
	switch kind {
	case parquet.Boolean:
		l.kind = tabular.Boolean
	case parquet.Int32, parquet.Int64:
		l.kind = tabular.Whole
	case parquet.Float, parquet.Double:
		l.kind = tabular.Numeric
	case parquet.Int96:
		l.kind, l.unit = tabular.Moment, time.Microsecond
	}
	switch t := logical.(type) {
	case nil:
	case *format.StringType, *format.EnumType, *format.JsonType:
		l.kind = tabular.Text
	case *format.IntType:
		l.unsigned = !t.IsSigned
	case *format.DecimalType:
		l.kind, l.decimal, l.scale, l.precision = tabular.Numeric, true, int(t.Scale), int(t.Precision)
		if l.scale > value.MaxScale || l.scale < -value.MaxScale {
			l.kind = tabular.Unread
		}
	case *format.Float16Type:
		l.kind, l.half = tabular.Numeric, true
	case *format.DateType:
		l.kind, l.unit = tabular.Moment, day
	case *format.TimestampType:
		l.kind, l.unit = tabular.Moment, unitOf(t.Unit)
	case *format.TimeType:
		l.kind, l.unit = tabular.Numeric, unitOf(t.Unit)
	default:
		l.kind = tabular.Unread
	}
	switch written := types.written[of.Path()[0]].(type) {
	case *arrow.DurationType: // Parquet has none: they are written as integers
		l.kind, l.unit, l.name = tabular.Numeric, written.Unit.Multiplier(), written.String()
	case *arrow.TimestampType: // Parquet has no zones
		if zone, err := written.GetZone(); err == nil && zone != nil {
			l.zone = zone
		}
	}
	if l.kind == tabular.Moment {
		l.advice = tabular.AdviseTimes
	}
	return l
}

func unitOf(u format.TimeUnit) time.Duration {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return time.Millisecond
	case *format.MicroSeconds:
		return time.Microsecond
	}
	return time.Nanosecond
}

// isItem reports whether a value is an item of a list, and not an empty list or none.
func (l *leaf) isItem(v *parquet.Value) bool { return v.DefinitionLevel() >= l.present }

// put appends a value to a column.
func (l *leaf) put(to *tabular.Column, v *parquet.Value) {
	isText := l.kind == tabular.Text || l.kind == tabular.Moment
	switch {
	case v.IsNull():
		to.AppendNull(isText)
	case isText:
		to.AppendText(l.text(v))
	case l.kind == tabular.Numeric:
		to.Numbers = append(to.Numbers, l.number(v))
	default:
		to.AppendWhole(l.whole(v), l.unsigned)
	}
	to.Truths = l.kind == tabular.Boolean
}

// whole returns an integer, or the bits of an unsigned one of 64 bits. A boolean is 0 or 1.
func (l *leaf) whole(v *parquet.Value) int64 {
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1
		}
		return 0
	case parquet.Int32:
		if l.unsigned {
			return int64(v.Uint32())
		}
		return int64(v.Int32())
	case parquet.Int96: // nanoseconds of a day, and the Julian day
		t := v.Int96()
		return (int64(t[2])-2440588)*day.Microseconds() + (int64(t[1])<<32|int64(t[0]))/1000
	}
	return v.Int64()
}

// index returns the index of an entry of a sparse row.
func (l *leaf) index(v *parquet.Value) int64 {
	if n := l.whole(v); !l.unsigned || n >= 0 {
		return n
	}
	return math.MaxInt64 // beyond the last column in any case
}

// number returns a number.
func (l *leaf) number(v *parquet.Value) float64 {
	switch kind := v.Kind(); {
	case l.decimal:
		return value.Decimal(l.unscaled(v), l.scale)
	case l.half:
		return float64(float16.FromBits(binary.LittleEndian.Uint16(v.ByteArray())).Float32())
	case l.unit != 0:
		per := int64(time.Second / l.unit)
		return float64(l.whole(v)/per) + float64(l.whole(v)%per)/float64(per)
	case kind == parquet.Float:
		return float64(v.Float())
	case kind == parquet.Double:
		return v.Double()
	case l.unsigned:
		return float64(uint64(l.whole(v)))
	}
	return float64(l.whole(v))
}

// unscaled returns the integer of a decimal.
func (l *leaf) unscaled(v *parquet.Value) *big.Int {
	if kind := v.Kind(); kind == parquet.Int32 || kind == parquet.Int64 {
		return big.NewInt(l.whole(v))
	}
	return value.BigEndian(v.ByteArray())
}

// text returns a text, or a time as [value.Time] parses it.
func (l *leaf) text(v *parquet.Value) string {
	switch whole := int64(0); {
	case l.kind == tabular.Text:
		return string(v.ByteArray())
	case l.unit == day:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(l.whole(v))).Format(time.DateOnly)
	default:
		whole = l.whole(v)
		per := int64(time.Second / l.unit)
		return time.Unix(whole/per, whole%per*int64(l.unit)).In(l.zone).Format(time.RFC3339Nano)
	}
}

// errTooFew means that a column ends before the others.
var errTooFew = fmt.Errorf("fewer values than the file announces: %w", io.ErrUnexpectedEOF)

// maxValues is the number of values read at a time.
const maxValues = 1024

// checkCodec returns an error for a compression that can't be read: of LZ4_RAW, parquet-go returns wrong values without an error.
func checkCodec(codec format.CompressionCodec) error {
	switch codec {
	case format.Uncompressed, format.Snappy, format.Zstd, format.Gzip, format.Brotli:
		return nil
	}
	return fmt.Errorf("compressed with %s: expected a column compressed with snappy, zstd, gzip or brotli, or uncompressed", codec)
}

// peek returns the next value; nil after the last. It is valid until the next call.
func (l *leaf) peek() (*parquet.Value, error) {
	for l.at == len(l.ahead) {
		if l.values == nil {
			if l.group == len(l.file.RowGroups()) {
				return nil, nil
			}
			if err := checkCodec(l.file.Metadata().RowGroups[l.group].Columns[l.column.Index()].MetaData.Codec); err != nil {
				return nil, err
			}
			l.values = parquet.NewColumnChunkValueReader(l.file.RowGroups()[l.group].ColumnChunks()[l.column.Index()])
			l.group++
		}
		l.ahead = slices.Grow(l.ahead[:0], maxValues)[:maxValues]
		n, err := l.values.ReadValues(l.ahead)
		if l.ahead, l.at = l.ahead[:n], 0; err == io.EOF {
			err = l.close()
		}
		if err != nil {
			return nil, err
		}
	}
	return &l.ahead[l.at], nil
}

// close releases the pages of a row group.
func (l *leaf) close() (err error) {
	if l.values != nil {
		err = l.values.Close()
		l.values = nil
	}
	return err
}

// next returns the next value. It is the first of its row, or another one.
func (l *leaf) next(first bool) (*parquet.Value, error) {
	v, err := l.peek()
	if err == nil && (v == nil || first != (v.RepetitionLevel() == 0)) {
		err = errTooFew
	}
	if err != nil {
		return nil, err
	}
	l.at++
	return v, nil
}

// row calls put for each value of the next row.
func (l *leaf) row(put func(v *parquet.Value) error) error {
	v, err := l.next(true)
	for err == nil {
		if err = put(v); err == nil {
			if v, err = l.peek(); err == nil && (v == nil || v.RepetitionLevel() == 0) {
				return nil
			}
			l.at++
		}
	}
	return err
}
