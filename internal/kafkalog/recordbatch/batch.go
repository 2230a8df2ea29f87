package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Set is the batches of a record set. A set in a format before Kafka 0.11 has a batch for each message, or for each
// compressed group.
type Set struct {
	// Batches are in the order of their offsets.
	Batches []Batch
}

// ReadFrom reads a record set, allocating each batch separately. It omits a truncated last batch.
func (s *Set) ReadFrom(r io.Reader) (n int64, err error) {
	read := func(b []byte) {
		if err == nil {
			var more int
			more, err = io.ReadFull(r, b)
			n += int64(more)
		}
	}
	var length [4]byte
	read(length[:])
	end := n + int64(int32(binary.BigEndian.Uint32(length[:]))) // a length of −1 means no set
	for err == nil && end-n > AtMagic {
		var header [AtMagic + 1]byte
		read(header[:])
		size := BeforeLength + int64(Batch(header[:]).Int32(AtLength))
		if err == nil && size <= AtMagic {
			err = fmt.Errorf("a batch has a length of %d bytes", size)
		}
		if err != nil || size > end-n+int64(len(header)) {
			break
		}
		batch := make(Batch, size)
		read(batch[copy(batch, header[:]):])
		s.Batches = append(s.Batches, batch)
	}
	if err == nil && n < end {
		var rest int64
		rest, err = io.CopyN(io.Discard, r, end-n)
		n += rest
	}
	return n, err
}

// WriteTo is required for the registration in kafka-go. Only a broker writes responses.
func (*Set) WriteTo(io.Writer) (int64, error) { return 0, errors.ErrUnsupported }

// Batch is an encoded batch.
type Batch []byte

// Int32 returns the 4-byte field at a position.
func (b Batch) Int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }

// Int64 returns the 8-byte field at a position.
func (b Batch) Int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// Base returns the offset of the first record.
func (b Batch) Base() int64 { return b.Int64(0) }

// Producer returns the producer id, which identifies the transaction.
func (b Batch) Producer() int64 { return b.Int64(AtProducer) }

// Has reports whether a batch has an attribute.
func (b Batch) Has(attribute uint16) bool {
	return binary.BigEndian.Uint16(b[AtAttributes:])&attribute != 0
}

// Next returns the offset after the range of the batch. Compaction and markers leave offsets without a record.
func (b Batch) Next() int64 { return b.Base() + int64(b.Int32(AtLastDelta)) + 1 }

// Headed reports whether a batch has the header of Kafka 0.11 and later. It returns an error if that is damaged.
func (b Batch) Headed() (bool, error) {
	switch version := b[AtMagic]; {
	case version < 2: // verified by kafka-go
		return false, nil
	case version > 2:
		return false, fmt.Errorf("the batch at offset %d has version %d, which this program does not know", b.Base(), version)
	case len(b) < HeaderBytes || b.Int32(AtCount) < 0 || b.Int32(AtLastDelta) < 0:
		return false, fmt.Errorf("the header of the batch at offset %d is damaged", b.Base())
	case uint32(b.Int32(AtChecksum)) != Checksum(b):
		return false, fmt.Errorf("the checksum of the batch at offset %d does not match its header", b.Base())
	}
	return true, nil
}

// Aborts reports whether a marker aborts its transaction. ok is false if it has no record.
func (b Batch) Aborts() (abort, ok bool) {
	const typeAt, abortType = 2, 0 // of the control record's key; 1 is commit
	d := Decoder{Rest: b[HeaderBytes:], OK: true}
	r := Decoder{Rest: d.Bytes(), OK: true}
	r.Take(1)
	r.Varint()
	r.Varint()
	key := r.Bytes()
	if !d.OK || !r.OK || len(key) < typeAt+2 {
		return false, false
	}
	return binary.BigEndian.Uint16(key[typeAt:]) == abortType, true
}

// Time returns the timestamp of a record with the given time in milliseconds: that of the batch if it has LogAppendTime.
func (b Batch) Time(milliseconds int64) time.Time {
	if b.Has(LogAppendTime) {
		milliseconds = b.Int64(AtMaxTime)
	}
	return TimeOf(milliseconds)
}

// TimeOf converts a Kafka timestamp. The producers of old clients write −1 for none.
func TimeOf(milliseconds int64) time.Time {
	if milliseconds < 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds)
}
