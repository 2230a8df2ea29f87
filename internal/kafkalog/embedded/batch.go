package embedded

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	notPlain       = compressedBits | transactional | marker
	noTime         = -1
	maxBatchLength = 1 << 30 // kfake's own limit
)

// batch is a record batch of the log: its header, and its records unless only headers were read.
type batch []byte

func (b batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func (b batch) base() int64    { return b.int64(0) }
func (b batch) end() int64     { return b.base() + int64(b.int32(atLastDelta)) + 1 }
func (b batch) bytes() int64   { return beforeLength + int64(b.int32(atLength)) }
func (b batch) count() int     { return int(b.int32(atCount)) }
func (b batch) maxTime() int64 { return b.int64(atMaxTime) }

func (b batch) attributes() uint16 { return binary.BigEndian.Uint16(b[atAttributes:]) }
func (b batch) compressed() bool   { return b.attributes()&compressedBits != 0 }

// sound reports whether a header is plausible.
func (b batch) sound() bool {
	length := b.int32(atLength)
	return length >= headerBytes-beforeLength && length <= maxBatchLength && b[atMagic] == 2 &&
		b.int32(atLastDelta) >= 0 && b.count() >= 0
}

func (b batch) checksum() uint32 { return checksumOf(b) }

// intact reports whether a batch has its checksum.
func (b batch) intact() bool {
	return binary.BigEndian.Uint32(b[atChecksum:]) == b.checksum()
}

// plain reports whether a batch is neither compressed nor part of a transaction. This program writes only plain batches.
func (b batch) plain() bool { return b.attributes()&notPlain == 0 }

// record is one record of a plain batch.
type record struct {
	raw    []byte // encoded record
	offset int64
	time   int64  // timestamp in milliseconds
	key    []byte // nil if null
	absent bool   // the value is null: a tombstone
}

// records returns the records of a plain batch. ok is false if they do not fill it exactly.
func (b batch) records() (records []record, ok bool) {
	d := decoder{rest: b[headerBytes:], ok: true}
	for range b.count() {
		before := d.rest
		length := d.varint()
		if length < 0 || length > int64(len(d.rest)) {
			return nil, false
		}
		after := d.rest[length:]
		d.rest = d.rest[:length]
		d.take(1) // attributes, which are unused
		r := record{raw: before[:len(before)-len(after)], time: b.int64(atFirstTime) + d.varint(), offset: b.base() + d.varint()}
		r.key = d.bytes()
		r.absent = d.varint() < 0
		if !d.ok {
			return nil, false
		}
		if b.attributes()&logAppendTime != 0 {
			r.time = b.maxTime()
		}
		records = append(records, r)
		d.rest = after
	}
	return records, len(d.rest) == 0
}

// with returns a batch for the same offsets with only the given records. Kafka's log cleaner does the same: readers see
// the gaps, and the end of the log does not change.
func (b batch) with(records []record) batch {
	kept := append(batch(nil), b[:headerBytes]...)
	latest := int64(noTime)
	for _, r := range records {
		kept = append(kept, r.raw...)
		latest = max(latest, r.time)
	}
	binary.BigEndian.PutUint32(kept[atLength:], uint32(len(kept)-beforeLength))
	binary.BigEndian.PutUint32(kept[atCount:], uint32(len(records)))
	binary.BigEndian.PutUint64(kept[atMaxTime:], uint64(latest)) // a search by time must not stop at removed records
	binary.BigEndian.PutUint32(kept[atChecksum:], kept.checksum())
	return kept
}

// newEmpty returns batches without records that cover the offsets [from, to): one, or several if the range is too large.
func newEmpty(from, to int64) []batch {
	var batches []batch
	for from < to {
		n := min(to-from, math.MaxInt32)
		b := make(batch, headerBytes)
		binary.BigEndian.PutUint64(b, uint64(from))
		binary.BigEndian.PutUint32(b[atLength:], headerBytes-beforeLength)
		b[atMagic] = 2
		binary.BigEndian.PutUint32(b[atLastDelta:], uint32(n-1))
		for i := atFirstTime; i < atCount; i++ {
			b[i] = 0xff // no timestamps and no producer: each is -1
		}
		binary.BigEndian.PutUint32(b[atChecksum:], b.checksum())
		batches = append(batches, b)
		from += n
	}
	return batches
}

// age returns the age of a timestamp in milliseconds. Without a timestamp it is 0.
func age(now time.Time, milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return 0
	}
	return now.Sub(time.UnixMilli(milliseconds))
}
