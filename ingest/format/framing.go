package format

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/schemas/value"
)

// Schema is a schema of message values.
type Schema struct {
	Name string // origin, for errors
	Type string // schema type in a registry
	Text string
	// References are schemas that this one references, each after its own references.
	References []Reference
}

// Reference is a schema with the name by which it is referenced.
type Reference struct{ Name, Text string }

// SchemaID identifies a schema in a registry: by number or GUID.
type SchemaID struct {
	Number int
	GUID   string // "": Number is set
}

func (id SchemaID) String() string {
	if id.GUID != "" {
		return id.GUID
	}
	return fmt.Sprint(id.Number)
}

const (
	framedNumber = 0 // first byte of a frame: a 4-byte schema number follows
	framedGUID   = 1 // first byte of a header: a 16-byte GUID follows
	frameBytes   = 5
	guidBytes    = 16
)

// Framed reports whether a value has the framing of a schema registry's serializers: a 0 and the schema number
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format).
func Framed(content []byte) (id SchemaID, rest []byte, ok bool) {
	if len(content) < frameBytes || content[0] != framedNumber {
		return id, content, false
	}
	return SchemaID{Number: int(binary.BigEndian.Uint32(content[1:frameBytes]))}, content[frameBytes:], true
}

// FramedHeader decodes the schema ID in a message header, where newer serializers write it, and returns the bytes after
// it.
func FramedHeader(header string) (id SchemaID, rest []byte, err error) {
	content := []byte(header)
	if id, rest, ok := Framed(content); ok {
		return id, rest, nil
	}
	if len(content) < 1+guidBytes || content[0] != framedGUID {
		return id, nil, fmt.Errorf("the header %s is %s: expected a 1 and the GUID of a schema", SchemaHeader, value.Quote(header))
	}
	id.GUID = value.UUID(content[1:])
	return id, content[1+guidBytes:], nil
}

// SchemaHeader is the header in which newer serializers write the schema ID of a value.
const SchemaHeader = "__value_schema_id"

// Indexes decodes the index path of a message type in its schema, which Protobuf's serializers write after the ID, and
// returns the bytes after it. For the first message type, the most common one, the path is a single 0.
func Indexes(content []byte) (indexes []int, rest []byte, err error) {
	next := func() int64 {
		v, n := binary.Varint(content)
		if n <= 0 || v < 0 || v > 1<<16 {
			err = errors.New("no list of message indexes after the schema ID: was it written by a Protobuf serializer?")
			return 0
		}
		content = content[n:]
		return v
	}
	count := next()
	if count == 0 && err == nil {
		return []int{0}, content, nil
	}
	for range min(count, int64(len(content))) {
		indexes = append(indexes, int(next()))
	}
	if err == nil && len(indexes) != int(count) {
		err = errors.New("the list of message indexes after the schema ID is truncated")
	}
	return indexes, content, err
}

// RegistryError means that a registry does not answer with a schema: the message that needs it is not at fault.
type RegistryError struct {
	Err  error
	Away bool // the registry may answer later; false: it refuses requests with these options
}

func (e *RegistryError) Error() string { return e.Err.Error() }

func (e *RegistryError) Unwrap() error { return e.Err }
