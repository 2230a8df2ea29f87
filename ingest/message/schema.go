package message

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/schemas/value"
)

// Schema describes the values of messages.
type Schema struct {
	Name string // for people: where it comes from
	Type string // what a registry calls its language
	Text string
	// References are schemas that this one needs, each behind those that it needs itself.
	References []Reference
}

// Reference is a schema by the name by which another one refers to it.
type Reference struct{ Name, Text string }

// SchemaID names a schema of a registry: by a number, or by a GUID.
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
	framedNumber = 0 // the first byte of a frame: the number of a schema follows, in four bytes
	framedGUID   = 1 // the first byte of a header: its GUID follows, in 16
	frameBytes   = 5
	guidBytes    = 16
)

// Framed reports whether a value begins as the serializers of a schema registry write it: with a 0 and the number of a schema
// (https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/#wire-format).
func Framed(content []byte) (id SchemaID, rest []byte, ok bool) {
	if len(content) < frameBytes || content[0] != framedNumber {
		return id, content, false
	}
	return SchemaID{Number: int(binary.BigEndian.Uint32(content[1:frameBytes]))}, content[frameBytes:], true
}

// FramedHeader returns the ID of a schema in the header of a message, where newer serializers write it, and what follows it there.
func FramedHeader(header string) (id SchemaID, rest []byte, err error) {
	content := []byte(header)
	if id, rest, ok := Framed(content); ok {
		return id, rest, nil
	}
	if len(content) < 1+guidBytes || content[0] != framedGUID {
		return id, nil, fmt.Errorf("the header %s is %s: expected a 1 and the GUID of a schema", SchemaHeader, value.Quote(header))
	}
	g := content[1 : 1+guidBytes]
	id.GUID = fmt.Sprintf("%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
	return id, content[1+guidBytes:], nil
}

// SchemaHeader is the header in which newer serializers write the ID of the schema of a value.
const SchemaHeader = "__value_schema_id"

// Indexes returns the places of a message in the file of its schema, and within other messages of it, which Protobuf's serializers
// write behind the ID, and what follows them. Most messages are the first of their file, which is a 0 alone.
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

// UnavailableError says that a schema can't be had now, but may be later: the message that needs it is not to blame.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// RefusedError says that no schema can be had with these options.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

func (e *RefusedError) Unwrap() error { return e.Err }
