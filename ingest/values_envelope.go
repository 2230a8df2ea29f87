package ingest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// checkFrame returns an error that says what a value begins with, if that is what serializers of a schema registry
// write: a 0 and the id of a schema
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format).
func checkFrame(content []byte, meaning string) error {
	const frame = 5
	if len(content) < frame || content[0] != 0 {
		return nil
	}
	return fmt.Errorf("it begins with a 0 and the schema ID %d, as the serializers of a schema registry write: expected %s: "+
		"configure the producer without a registry", binary.BigEndian.Uint32(content[1:frame]), meaning)
}

// lacksColumn returns an error that says what an object has that lacks the column of the label, and where in it the column is.
func lacksColumn(cell value.Cell, column string) error {
	object := membersOf(cell)
	names := slices.Sorted(maps.Keys(object))
	if within := findColumn(object, column); within != "" {
		return fmt.Errorf("no column %s: the object has %s. It is in %s: configure the producer to write only that object",
			value.Quote(column), layout.SomeNames(names), value.Quote(within))
	}
	if len(names) == 0 {
		return fmt.Errorf("no column %s: the object is empty", value.Quote(column))
	}
	return fmt.Errorf("no column %s: the object has %s: examples.label names the label column", value.Quote(column),
		layout.SomeNames(names))
}

// findColumn returns the path of the object in an object that has a column, such as payload.after; "": none has.
func findColumn(object map[string]value.Cell, column string) string {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if object[name].Null() || object[name][0] != '{' {
			continue
		}
		inner := membersOf(object[name])
		if _, has := inner[column]; has {
			return name
		}
		if within := findColumn(inner, column); within != "" {
			return name + "." + within
		}
	}
	return ""
}

// membersOf returns the members of an object, which CheckJSON has passed.
func membersOf(object value.Cell) map[string]value.Cell {
	members := map[string]value.Cell{}
	_ = object.Members(func(name string, cell value.Cell) error {
		members[name] = cell
		return nil
	})
	return members
}
