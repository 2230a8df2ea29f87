package parquet

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/decimal256"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// schema converts the schema of a file.
type schema struct {
	file    *parquet.File
	columns Columns
	hasIDs  bool // the file has IDs
	types   types
}

// types describes the columns of a file, in addition to their nodes.
type types struct {
	leaves  []format.LogicalTypeValue // by leaf
	written []arrow.DataType          // Arrow types from which leaves were written; none: unknown
}

// arrowSchema is the metadata key of the Arrow schema of files written from Arrow.
const arrowSchema = "ARROW:schema"

func typesOf(file *parquet.File) (t types) {
	for _, element := range file.Metadata().Schema {
		if element.NumChildren.V == 0 && element.Type.Valid {
			t.leaves = append(t.leaves, element.LogicalType.Value)
		}
	}
	text, _ := file.Lookup(arrowSchema)
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return t
	}
	written, err := stream.ReadSchema(content)
	if err != nil {
		return t // only a hint
	}
	if leaves := appendLeaves(nil, written.Fields()); len(leaves) == len(t.leaves) {
		t.written = leaves
	}
	return t
}

// appendLeaves appends the types of the leaves of fields, in the order in which Parquet has them.
func appendLeaves(to []arrow.DataType, fields []arrow.Field) []arrow.DataType {
	for _, f := range fields {
		if nested, ok := f.Type.(arrow.NestedType); ok {
			to = appendLeaves(to, nested.Fields())
		} else {
			to = append(to, f.Type)
		}
	}
	return to
}

// name returns the name of a column that is at a path; "": it was dropped.
func (s *schema) name(c *parquet.Column, within string) string {
	switch {
	case s.columns.Names == nil:
		return c.Name()
	case s.hasIDs:
		return s.columns.Names[c.ID()]
	}
	return s.columns.Names[s.columns.IDs[within+c.Name()]]
}

func hasIDs(of *parquet.Column) bool {
	return of.ID() > 0 || slices.ContainsFunc(of.Columns(), hasIDs)
}

// fields returns those of the given columns that are wanted.
func (s *schema) fields(columns []*parquet.Column, within string) (nodes []*node, fields []arrow.Field) {
	for _, c := range columns {
		name := s.name(c, within)
		dropped := name == "" && s.columns.Names != nil // in a file without a table's names, a column may have none
		if path := within + name; !dropped && (within == "" && s.columns.Own || s.columns.Wanted(path)) {
			if n, t := s.node(c, path, c.Repeated()); n != nil {
				nodes, fields = append(nodes, n), append(fields, arrow.Field{Name: name, Type: t, Nullable: true})
			}
		}
	}
	return nodes, fields
}

// node returns a column; nil: nothing in it is wanted. repeated means that the column is itself a list.
func (s *schema) node(c *parquet.Column, path string, repeated bool) (n *node, t arrow.DataType) {
	parts := c.Columns()
	only := len(parts) == 1 && parts[0].Repeated()
	switch {
	case repeated:
		return s.list(c, c, path)
	case c.Leaf():
		l := &leaf{file: s.file, column: c}
		n, t = &node{leaf: l, leaves: []*leaf{l}}, s.leafType(c)
	case only && hasEntries(c, parts[0]):
		key, keys := s.node(parts[0].Columns()[0], path, false)
		v, of := s.all().node(parts[0].Columns()[1], path, parts[0].Columns()[1].Repeated())
		if v == nil {
			return nil, nil
		}
		n = &node{leaves: append(slices.Clone(key.leaves), v.leaves...), parts: []*node{key, v}}
		n.item, n.repeats, t = parts[0].MaxDefinitionLevel(), parts[0].MaxRepetitionLevel(), arrow.MapOf(keys, of)
	case only && !parts[0].Leaf() && len(parts[0].Columns()) == 1:
		n, t = s.list(parts[0], parts[0].Columns()[0], path)
	case only:
		n, t = s.list(parts[0], parts[0], path)
	default:
		nodes, fields := s.fields(parts, path+".")
		n, t = &node{parts: nodes}, arrow.StructOf(fields...)
		for _, part := range nodes {
			n.leaves = append(n.leaves, part.leaves...)
		}
	}
	if n == nil || len(n.leaves) == 0 {
		return nil, nil
	}
	if c.Optional() {
		n.present = c.MaxDefinitionLevel()
	}
	return n, t
}

// list returns a list. c is the repeated column, and of is the item. It returns nil if nothing in the list is wanted.
func (s *schema) list(c, of *parquet.Column, path string) (*node, arrow.DataType) {
	item, t := s.all().node(of, path, of != c && of.Repeated())
	if item == nil {
		return nil, nil
	}
	return &node{leaves: item.leaves, parts: []*node{item}, item: c.MaxDefinitionLevel(), repeats: c.MaxRepetitionLevel()}, arrow.ListOf(t)
}

// all returns the schema for the items of a list or a map. All parts of them are wanted, because paths to them have indices or keys.
func (s *schema) all() *schema {
	all := *s
	all.columns.Wanted = func(string) bool { return true }
	return &all
}

// hasEntries reports whether a column is a map, whose entries are in a repeated column. Writers name entries as they like; only without
// the annotation are they known by their names.
func hasEntries(c, repeated *parquet.Column) bool {
	parts, logical := repeated.Columns(), c.Type().LogicalType()
	isMap := (repeated.Name() == "key_value" || repeated.Name() == "map") && len(parts) == 2 && parts[0].Name() == "key"
	if logical != nil && !isMap {
		_, isMap = logical.Value.(*format.MapType)
	}
	return isMap && len(parts) == 2 && parts[0].Leaf() && !parts[0].Optional() && !parts[0].Repeated()
}

// leafType returns the Arrow type of the values of a leaf.
func (s *schema) leafType(c *parquet.Column) arrow.DataType {
	var logical format.LogicalTypeValue
	if i := c.Index(); i < len(s.types.leaves) {
		logical = s.types.leaves[i]
	}
	if known := c.Type().LogicalType(); logical == nil && known != nil { // of an older annotation
		logical = known.Value
	}
	kind := c.Type().Kind()
	var written arrow.DataType
	if c.Index() < len(s.types.written) {
		written = s.types.written[c.Index()]
	}
	if d, ok := written.(*arrow.DurationType); ok && kind == parquet.Int64 { // Parquet has none: they are written as integers
		return d
	}
	zone := "" // Parquet has none
	if t, ok := written.(*arrow.TimestampType); ok {
		zone = t.TimeZone
	}
	switch t := logical.(type) {
	case *format.NullType:
		return arrow.Null
	case *format.StringType, *format.EnumType, *format.JsonType, *format.UUIDType:
		return arrow.BinaryTypes.String
	case *format.IntType:
		if !t.IsSigned && kind == parquet.Int32 {
			return arrow.PrimitiveTypes.Uint32
		} else if !t.IsSigned {
			return arrow.PrimitiveTypes.Uint64
		}
	case *format.DecimalType:
		return &arrow.Decimal256Type{Precision: t.Precision, Scale: t.Scale}
	case *format.Float16Type:
		return arrow.FixedWidthTypes.Float16
	case *format.DateType:
		return arrow.FixedWidthTypes.Date32
	case *format.TimestampType:
		return &arrow.TimestampType{Unit: unitOf(t.Unit), TimeZone: zone}
	case *format.TimeType:
		if unit := unitOf(t.Unit); unit != arrow.Millisecond {
			return &arrow.Time64Type{Unit: unit}
		}
		return arrow.FixedWidthTypes.Time32ms
	}
	plain := map[parquet.Kind]arrow.DataType{
		parquet.Boolean: arrow.FixedWidthTypes.Boolean,
		parquet.Int32:   arrow.PrimitiveTypes.Int32,
		parquet.Int64:   arrow.PrimitiveTypes.Int64,
		parquet.Int96:   &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone},
		parquet.Float:   arrow.PrimitiveTypes.Float32,
		parquet.Double:  arrow.PrimitiveTypes.Float64,
	}[kind]
	return cmp.Or(plain, arrow.DataType(arrow.BinaryTypes.Binary))
}

func unitOf(u format.TimeUnit) arrow.TimeUnit {
	switch u.Value.(type) {
	case *format.MilliSeconds:
		return arrow.Millisecond
	case *format.MicroSeconds:
		return arrow.Microsecond
	}
	return arrow.Nanosecond
}

// put appends a value that is not null.
func put(to array.Builder, v *parquet.Value) error {
	switch to := to.(type) {
	case *array.BooleanBuilder:
		to.Append(v.Boolean())
	case *array.Int32Builder:
		to.Append(v.Int32())
	case *array.Int64Builder:
		to.Append(v.Int64())
	case *array.Uint32Builder:
		to.Append(v.Uint32())
	case *array.Uint64Builder:
		to.Append(v.Uint64())
	case *array.Float16Builder:
		to.Append(float16.FromBits(binary.LittleEndian.Uint16(v.ByteArray())))
	case *array.Float32Builder:
		to.Append(v.Float())
	case *array.Float64Builder:
		to.Append(v.Double())
	case *array.StringBuilder:
		if v.Kind() == parquet.FixedLenByteArray {
			to.Append(value.UUID(v.ByteArray()))
		} else {
			to.BinaryBuilder.Append(v.ByteArray())
		}
	case *array.BinaryBuilder:
		to.Append(v.ByteArray())
	case *array.Date32Builder:
		to.Append(arrow.Date32(v.Int32()))
	case *array.Time32Builder:
		to.Append(arrow.Time32(v.Int32()))
	case *array.Time64Builder:
		to.Append(arrow.Time64(v.Int64()))
	case *array.DurationBuilder:
		to.Append(arrow.Duration(v.Int64()))
	case *array.TimestampBuilder:
		at := v.Int64()
		if v.Kind() == parquet.Int96 { // nanoseconds of a day, and the Julian day
			t := v.Int96()
			at = (int64(t[2])-2440588)*(24*time.Hour).Microseconds() + (int64(t[1])<<32|int64(t[0]))/1000
		}
		to.Append(arrow.Timestamp(at))
	case *array.Decimal256Builder:
		unscaled := new(big.Int)
		switch v.Kind() {
		case parquet.Int32:
			unscaled.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			unscaled.SetInt64(v.Int64())
		default:
			unscaled = value.BigEndian(v.ByteArray())
		}
		if unscaled.BitLen() > 255 {
			return errors.New("a decimal number of more than 255 bits")
		}
		to.Append(decimal256.FromBigInt(unscaled))
	}
	return nil
}
