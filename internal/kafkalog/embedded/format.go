package embedded

import (
	"encoding/binary"
	"hash/crc32"
)

// Byte positions of the fields of a record batch's header: https://kafka.apache.org/documentation/#recordbatch. The base offset is at
// 0.
const (
	atLength     = 8
	atMagic      = 16 // the version, which is 2
	atChecksum   = 17 // of all bytes after it
	atAttributes = 21
	atLastDelta  = 23 // last offset delta
	atFirstTime  = 27
	atMaxTime    = 35
	atCount      = 57
	headerBytes  = 61
	beforeLength = atLength + 4 // bytes not counted by the length
)

// Attributes.
const (
	compressedBits = 0b111
	logAppendTime  = 1 << 3 // all records have the maximum timestamp, set by the broker
	transactional  = 1 << 4
	marker         = 1 << 5 // a control batch
)

// checksumOf returns the expected checksum of a batch.
func checksumOf(batch []byte) uint32 {
	return crc32.Checksum(batch[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// decoder decodes the fields of records. After an error ok is false, and results are undefined.
type decoder struct {
	rest []byte
	ok   bool
}

// varint decodes a number.
func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.ok = false
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// take reads n bytes.
func (d *decoder) take(n int64) []byte {
	if n < 0 || n > int64(len(d.rest)) {
		d.ok = false
		return nil
	}
	taken := d.rest[:n:n]
	d.rest = d.rest[n:]
	return taken
}

// bytes decodes a length-prefixed field; nil if the length is negative.
func (d *decoder) bytes() []byte {
	n := d.varint()
	if n < 0 {
		return nil
	}
	return d.take(n)
}
