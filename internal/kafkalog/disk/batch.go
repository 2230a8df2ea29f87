package disk

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

const (
	notPlain       = recordbatch.Compressed | recordbatch.Transactional | recordbatch.Marker
	noTime         = -1
	maxBatchLength = 1 << 30 // kfake's own limit
)

// batch is a record batch of the log: its header, and its records unless only headers were read.
type batch []byte

func (b batch) int32(at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func (b batch) int64(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

func (b batch) base() int64    { return b.int64(0) }
func (b batch) end() int64     { return b.base() + int64(b.int32(recordbatch.AtLastDelta)) + 1 }
func (b batch) bytes() int64   { return recordbatch.BeforeLength + int64(b.int32(recordbatch.AtLength)) }
func (b batch) count() int     { return int(b.int32(recordbatch.AtCount)) }
func (b batch) maxTime() int64 { return b.int64(recordbatch.AtMaxTime) }

func (b batch) attributes() uint16 { return binary.BigEndian.Uint16(b[recordbatch.AtAttributes:]) }
func (b batch) compressed() bool   { return b.attributes()&recordbatch.Compressed != 0 }

// sound reports whether a header is plausible.
func (b batch) sound() bool {
	length := b.int32(recordbatch.AtLength)
	return length >= recordbatch.HeaderBytes-recordbatch.BeforeLength && length <= maxBatchLength && b[recordbatch.AtMagic] == 2 &&
		b.int32(recordbatch.AtLastDelta) >= 0 && b.count() >= 0
}

func (b batch) checksum() uint32 { return recordbatch.Checksum(b) }

// intact reports whether a batch has its checksum.
func (b batch) intact() bool {
	return binary.BigEndian.Uint32(b[recordbatch.AtChecksum:]) == b.checksum()
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
	d := recordbatch.Decoder{Rest: b[recordbatch.HeaderBytes:], OK: true}
	for range b.count() {
		before := d.Rest
		length := d.Varint()
		if length < 0 || length > int64(len(d.Rest)) {
			return nil, false
		}
		after := d.Rest[length:]
		d.Rest = d.Rest[:length]
		d.Take(1) // attributes, which are unused
		r := record{raw: before[:len(before)-len(after)], time: b.int64(recordbatch.AtFirstTime) + d.Varint(), offset: b.base() + d.Varint()}
		r.key = d.Bytes()
		r.absent = d.Varint() < 0
		if !d.OK {
			return nil, false
		}
		if b.attributes()&recordbatch.LogAppendTime != 0 {
			r.time = b.maxTime()
		}
		records = append(records, r)
		d.Rest = after
	}
	return records, len(d.Rest) == 0
}

// with returns a batch for the same offsets with only the given records. Kafka's log cleaner does the same: readers see
// the gaps, and the end of the log does not change.
func (b batch) with(records []record) batch {
	kept := append(batch(nil), b[:recordbatch.HeaderBytes]...)
	latest := int64(noTime)
	for _, r := range records {
		kept = append(kept, r.raw...)
		latest = max(latest, r.time)
	}
	binary.BigEndian.PutUint32(kept[recordbatch.AtLength:], uint32(len(kept)-recordbatch.BeforeLength))
	binary.BigEndian.PutUint32(kept[recordbatch.AtCount:], uint32(len(records)))
	binary.BigEndian.PutUint64(kept[recordbatch.AtMaxTime:], uint64(latest)) // a search by time must not stop at removed records
	binary.BigEndian.PutUint32(kept[recordbatch.AtChecksum:], kept.checksum())
	return kept
}

// newEmpty returns batches without records that cover the offsets [from, to): one, or several if the range is too large.
func newEmpty(from, to int64) []batch {
	var batches []batch
	for from < to {
		n := min(to-from, math.MaxInt32)
		b := make(batch, recordbatch.HeaderBytes)
		binary.BigEndian.PutUint64(b, uint64(from))
		binary.BigEndian.PutUint32(b[recordbatch.AtLength:], recordbatch.HeaderBytes-recordbatch.BeforeLength)
		b[recordbatch.AtMagic] = 2
		binary.BigEndian.PutUint32(b[recordbatch.AtLastDelta:], uint32(n-1))
		for i := recordbatch.AtFirstTime; i < recordbatch.AtCount; i++ {
			b[i] = 0xff // no timestamps and no producer: each is -1
		}
		binary.BigEndian.PutUint32(b[recordbatch.AtChecksum:], b.checksum())
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
