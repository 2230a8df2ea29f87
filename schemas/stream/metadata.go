package stream

import (
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The slots of the tables that verify walks, and the tags of their unions, from Message.fbs and Schema.fbs of the Arrow
// format. Slot i of a table is at 4 + 2i.
const (
	messageHeaderType, messageHeader, messageBodyLength = 6, 8, 10
	schemaEndianness, schemaFields, schemaMetadata      = 4, 6, 8
	fieldName, fieldTypeTag, fieldType                  = 4, 8, 10
	fieldDictionary, fieldChildren, fieldMetadata       = 12, 14, 16
	batchCompression                                    = 10
	encodingID                                          = 4
	dictionaryID, dictionaryData, dictionaryIsDelta     = 4, 6, 8
	pairKey, pairValue                                  = 4, 6
	timestampZone                                       = 6
	tagSchema, tagDictionary, tagBatch                  = 1, 2, 3 // of messages
	tagTimestamp, tagUnion                              = 10, 14
	tagLargeList, tagRunEndEncoded                      = 21, 22
	sizeOffset                                          = 4
	bigEndian                                           = 1
	maxFields, maxDepth                                 = 4096, 16
)

// rules define what a stream may contain.
type rules struct {
	// dictionaries are the dictionaries of the schema, by id, and whether each was read.
	dictionaries map[int64]bool
	// many allows any number of batches, with compressed buffers, and dictionaries that change between them.
	many bool
	// typesOnly means that no batch is read, so columns may also be views, and dictionaries may be anywhere.
	typesOnly bool
}

// verify checks the metadata of a message before Arrow reads it, and returns the length of the message's body. Arrow
// trusts the metadata. It allocates the children of a vector that claims 2³² of them, and recurses into a field that
// contains itself until the process ends. No recover can stop either. verify itself panics on an offset out of range;
// Decode turns the panic into an error.
func (r rules) verify(meta []byte) (bodyLength int64, err error) {
	message := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	bodyLength = message.GetInt64Slot(messageBodyLength, 0)
	var header flatbuffers.Table
	at := message.Offset(messageHeader)
	if at == 0 {
		return 0, errors.New("an Arrow message without a header")
	}
	message.Union(&header, flatbuffers.UOffsetT(at))
	switch tag := message.GetByteSlot(messageHeaderType, 0); tag {
	case tagSchema:
		return bodyLength, r.verifySchema(header)
	case tagDictionary:
		return bodyLength, r.verifyDictionary(header)
	case tagBatch:
		for id, read := range r.dictionaries {
			if !read {
				return 0, fmt.Errorf("a record batch before dictionary %d", id)
			}
		}
		return bodyLength, r.verifyBatch(header)
	default:
		return 0, fmt.Errorf("an Arrow message of type %d: expected a schema, dictionaries and a record batch", tag)
	}
}

// verifyDictionary checks the message of a dictionary. A stream of one batch needs each dictionary once, complete.
func (r rules) verifyDictionary(header flatbuffers.Table) error {
	id := header.GetInt64Slot(dictionaryID, 0)
	read, announced := r.dictionaries[id]
	at := header.Offset(dictionaryData)
	if !announced || at == 0 || !r.many && (read || header.GetBoolSlot(dictionaryIsDelta, false)) ||
		header.GetBoolSlot(dictionaryIsDelta, false) && !read {
		return fmt.Errorf("dictionary %d: expected each dictionary of the schema once, whole", id)
	}
	r.dictionaries[id] = true
	return r.verifyBatch(flatbuffers.Table{Bytes: header.Bytes, Pos: header.Indirect(flatbuffers.UOffsetT(at) + header.Pos)})
}

// verifySchema checks a schema and records its dictionaries. The number and depth of its fields are limited, and their
// types must be ones that Arrow reads safely.
func (r rules) verifySchema(schema flatbuffers.Table) error {
	if schema.GetInt16Slot(schemaEndianness, 0) == bigEndian {
		return errors.New("a big-endian Arrow stream")
	}
	w := walk{fields: maxFields, bytes: len(schema.Bytes), rules: r}
	if err := w.children(schema, schemaFields, maxDepth); err != nil {
		return err
	}
	return w.metadata(schema, schemaMetadata)
}

// walk limits what a schema may still contain: fields, and bytes of text and of references to metadata. An honest
// schema stores each text once, so its texts take no more bytes than its metadata. In a hostile schema, many fields
// refer to the same text, which Arrow would copy for each of them.
type walk struct {
	rules
	fields, bytes int
}

// children checks the fields in a slot of parent, to a limited depth.
func (w *walk) children(parent flatbuffers.Table, slot flatbuffers.VOffsetT, depth int) error {
	start, n, err := vector(parent, slot)
	if err != nil {
		return err
	}
	if w.fields -= n; w.fields < 0 || n > 0 && depth == 0 {
		return fmt.Errorf("a schema of more than %d fields, or more than %d deep", maxFields, maxDepth)
	}
	for i := range n {
		if err := w.field(element(parent, start, i), depth-1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) field(field flatbuffers.Table, depth int) error {
	if err := w.string(field, fieldName); err != nil {
		return err
	}
	if at := field.Offset(fieldDictionary); at != 0 {
		children := field.Offset(fieldChildren)
		isNested := depth < maxDepth-1 || children != 0 && field.VectorLen(flatbuffers.UOffsetT(children)) > 0
		if isNested && !w.typesOnly { // Arrow resolves dictionaries within dictionaries by recursion
			return fmt.Errorf("column %s: dictionary-encoded columns of lists and structs, or within them, are not supported", name(field))
		}
		encoding := flatbuffers.Table{Bytes: field.Bytes, Pos: field.Indirect(flatbuffers.UOffsetT(at) + field.Pos)}
		w.dictionaries[encoding.GetInt64Slot(encodingID, 0)] = false
	}
	// Arrow does not check what unions, views and run-end encoded columns claim.
	tag := field.GetByteSlot(fieldTypeTag, 0)
	if tag == tagUnion || tag > tagLargeList && !(w.typesOnly && tag > tagRunEndEncoded) {
		return fmt.Errorf("column %s: unions, views and run-end encoded columns are not supported: write a plain column "+
			"(in Polars compat_level=CompatLevel.oldest())", name(field))
	}
	if at := field.Offset(fieldType); tag == tagTimestamp && at != 0 {
		var timestamp flatbuffers.Table
		field.Union(&timestamp, flatbuffers.UOffsetT(at))
		if err := w.string(timestamp, timestampZone); err != nil {
			return err
		}
	}
	if err := w.metadata(field, fieldMetadata); err != nil {
		return err
	}
	return w.children(field, fieldChildren, depth)
}

// metadata checks the key-value pairs in a slot of parent.
func (w *walk) metadata(parent flatbuffers.Table, slot flatbuffers.VOffsetT) error {
	start, n, err := vector(parent, slot)
	if err != nil {
		return err
	}
	for i := range n {
		if err := w.spend(sizeOffset); err != nil {
			return err
		}
		pair := element(parent, start, i)
		if err := errors.Join(w.string(pair, pairKey), w.string(pair, pairValue)); err != nil {
			return err
		}
	}
	return nil
}

// string spends the bytes of the text in a slot of t, if it has one.
func (w *walk) string(t flatbuffers.Table, slot flatbuffers.VOffsetT) error {
	if at := t.Offset(slot); at != 0 {
		return w.spend(len(t.ByteVector(flatbuffers.UOffsetT(at) + t.Pos)))
	}
	return nil
}

// spend takes bytes from those that the schema may still contain.
func (w *walk) spend(bytes int) error {
	if w.bytes -= bytes; w.bytes < 0 {
		return errors.New("a schema with more text and metadata than bytes")
	}
	return nil
}

// name returns the quoted name of a field.
func name(field flatbuffers.Table) string {
	if at := field.Offset(fieldName); at != 0 {
		return Quote(string(field.ByteVector(flatbuffers.UOffsetT(at) + field.Pos)))
	}
	return Quote("")
}

// verifyBatch rejects compressed buffers in a message, because they may claim any decompressed size. Kafka producers
// compress whole messages instead. The other numbers of a batch are checked where they are used: frames bounds the body,
// boundedAllocator the total, and validate each buffer.
func (r rules) verifyBatch(batch flatbuffers.Table) error {
	if batch.Offset(batchCompression) != 0 && !r.many {
		return errors.New("a compressed record batch: leave compression to the producer")
	}
	return nil
}

// vector returns the position of the first element of a vector of offsets, and the number of elements. It returns an
// error if the metadata is too short for them.
func vector(t flatbuffers.Table, slot flatbuffers.VOffsetT) (start flatbuffers.UOffsetT, n int, err error) {
	at := flatbuffers.UOffsetT(t.Offset(slot))
	if at == 0 {
		return 0, 0, nil
	}
	start, n = t.Vector(at), t.VectorLen(at)
	if n > (len(t.Bytes)-int(start))/sizeOffset {
		return 0, 0, fmt.Errorf("a vector of %d elements in %d bytes", n, len(t.Bytes))
	}
	return start, n, nil
}

// element returns the table that element i of a vector of offsets refers to.
func element(t flatbuffers.Table, start flatbuffers.UOffsetT, i int) flatbuffers.Table {
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(start + flatbuffers.UOffsetT(i*sizeOffset))}
}
