// Package recordbatch reads Kafka's record batches, and limits their decompressed size:
// https://kafka.apache.org/documentation/#recordbatch
package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
)

// Byte positions of header fields. The base offset is at 0.
const (
	AtLength     = 8
	AtMagic      = 16 // the version, which is 2
	AtChecksum   = 17 // of all bytes after it
	AtAttributes = 21
	AtLastDelta  = 23 // last offset delta
	AtFirstTime  = 27
	AtMaxTime    = 35
	AtProducer   = 43
	AtCount      = 57
	HeaderBytes  = 61
	BeforeLength = AtLength + 4 // bytes not counted by the length
)

// Attributes.
const (
	Compressed    = 0b111
	LogAppendTime = 1 << 3 // all records have the maximum timestamp, set by the broker
	Transactional = 1 << 4
	Marker        = 1 << 5 // a control batch
)

// Checksum returns the expected checksum of a batch.
func Checksum(batch []byte) uint32 {
	return crc32.Checksum(batch[AtAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// Decoder decodes the fields of records. After an error OK is false, and results are undefined.
type Decoder struct {
	Rest []byte
	OK   bool
}

// Varint decodes a number.
func (d *Decoder) Varint() int64 {
	v, n := binary.Varint(d.Rest)
	if n <= 0 {
		d.OK = false
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Take reads n bytes.
func (d *Decoder) Take(n int64) []byte {
	if n < 0 || n > int64(len(d.Rest)) {
		d.OK = false
		return nil
	}
	taken := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return taken
}

// Bytes decodes a length-prefixed field; nil if the length is negative.
func (d *Decoder) Bytes() []byte {
	n := d.Varint()
	if n < 0 {
		return nil
	}
	return d.Take(n)
}
