// Package recordbatch reads Kafka's record batches, and limits their decompressed size:
// https://kafka.apache.org/documentation/#recordbatch
package recordbatch

import (
	"encoding/binary"
	"hash/crc32"
)

// Where the fields of a header are, in bytes. The offset of the first record is at 0.
const (
	AtLength     = 8
	AtMagic      = 16 // the version, which is 2
	AtChecksum   = 17 // of all that comes after it
	AtAttributes = 21
	AtLastDelta  = 23 // the last offset that the batch covers, after the first
	AtFirstTime  = 27
	AtMaxTime    = 35
	AtProducer   = 43
	AtCount      = 57
	HeaderBytes  = 61
	BeforeLength = AtLength + 4 // what the length does not count
)

// Attributes.
const (
	Compressed    = 0b111
	LogAppendTime = 1 << 3 // all records have the latest time, which is the broker's
	Transactional = 1 << 4
	Marker        = 1 << 5 // of how a transaction ended
)

// Checksum returns the expected checksum of a batch.
func Checksum(batch []byte) uint32 {
	return crc32.Checksum(batch[AtAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// Decoder reads what records consist of. After an error OK is false, and what it returns has no meaning.
type Decoder struct {
	Rest []byte
	OK   bool
}

// Varint reads a number.
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

// Bytes reads a length and as many bytes; nil if the length is negative.
func (d *Decoder) Bytes() []byte {
	n := d.Varint()
	if n < 0 {
		return nil
	}
	return d.Take(n)
}
