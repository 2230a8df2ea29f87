package avro

import (
	"fmt"

	"github.com/hamba/avro/v2"

	"github.com/stagewise/stagewise/ingest/format/tabular"
)

// leafOf returns a function that reads a value without children as a cell. Times are in seconds, whatever the unit of the
// schema, so that a change of the unit does not change the training data.
func leafOf(s avro.Schema) func(c *cursor) tabular.Cell {
	switch s := s.(type) {
	case *avro.NullSchema:
		return func(*cursor) tabular.Cell { return tabular.Cell{} }
	case *avro.EnumSchema:
		symbols := make([]tabular.Cell, len(s.Symbols()))
		for i, symbol := range s.Symbols() {
			symbols[i] = tabular.Word(symbol)
		}
		return func(c *cursor) tabular.Cell {
			i := c.long()
			if i < 0 || i >= int64(len(symbols)) {
				c.fail(fmt.Errorf("symbol %d of the enum %s, which has %d", i, s.FullName(), len(symbols)))
				return tabular.Cell{}
			}
			return symbols[i]
		}
	case *avro.FixedSchema:
		size := int64(s.Size())
		if d, ok := s.Logical().(*avro.DecimalLogicalSchema); ok {
			return func(c *cursor) tabular.Cell { return tabular.Decimal(c.next(size), d.Scale()) }
		}
		return func(c *cursor) tabular.Cell { return tabular.Word(string(c.next(size))) }
	case *avro.PrimitiveSchema:
		return primitive(s)
	}
	return nil
}

// primitive is leafOf for a primitive type.
func primitive(s *avro.PrimitiveSchema) func(c *cursor) tabular.Cell {
	switch s.Type() {
	case avro.Boolean:
		return func(c *cursor) tabular.Cell { return tabular.Truth(c.boolean()) }
	case avro.Int, avro.Long:
		if unit := unitOf(s); unit != 0 {
			cell := tabular.Instant
			if l := s.Logical(); l != nil && (l.Type() == avro.TimeMillis || l.Type() == avro.TimeMicros) {
				cell = tabular.Float // a time of day
			}
			return func(c *cursor) tabular.Cell { return cell(seconds(c.long(), unit)) }
		}
		return func(c *cursor) tabular.Cell { return tabular.Integer(c.long()) }
	case avro.Float:
		return func(c *cursor) tabular.Cell { return tabular.Float(c.float()) }
	case avro.Double:
		return func(c *cursor) tabular.Cell { return tabular.Float(c.double()) }
	}
	if d, ok := s.Logical().(*avro.DecimalLogicalSchema); ok {
		return func(c *cursor) tabular.Cell { return tabular.Decimal(c.bytes(), d.Scale()) }
	}
	return func(c *cursor) tabular.Cell { return tabular.Word(string(c.bytes())) }
}

// day is the number of seconds of a day.
const day = 86400

// unitOf returns the number of a time type's units per second; negative: the number of seconds per unit; 0: not a time
// type.
func unitOf(s *avro.PrimitiveSchema) int64 {
	if s.Logical() == nil {
		if name, _ := s.Prop("logicalType").(string); name == "timestamp-nanos" || name == "local-timestamp-nanos" {
			return 1e9
		}
		return 0
	}
	switch s.Logical().Type() {
	case avro.Date:
		return -day
	case avro.TimeMillis, avro.TimestampMillis, avro.LocalTimestampMillis:
		return 1e3
	case avro.TimeMicros, avro.TimestampMicros, avro.LocalTimestampMicros:
		return 1e6
	}
	return 0
}

// seconds converts a time to seconds.
func seconds(v, unit int64) float64 {
	if unit < 0 {
		return float64(v) * float64(-unit)
	}
	return float64(v/unit) + float64(v%unit)/float64(unit)
}
