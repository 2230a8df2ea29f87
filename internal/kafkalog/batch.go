package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Byte positions in a record batch: https://kafka.apache.org/documentation/#recordbatch.
const (
	beforeLength   = 12 // bytes not counted by the length
	atMagic        = 16 // the version, which is 2
	atChecksum     = 17 // of all bytes after it
	atAttributes   = 21
	headerBytes    = 61
	maxBatchLength = 1 << 30 // kfake's own limit
)

// Attributes.
const (
	compressedBits = 0b111
	logAppendTime  = 1 << 3 // all records have the maximum timestamp, set by the broker
	transactional  = 1 << 4
	marker         = 1 << 5 // a control batch
)

const noTime = -1

// batch is a record batch of the log: its header, and its bytes unless only the header was read.
type batch struct {
	kmsg.RecordBatch
	raw []byte
}

// headerAt decodes the header at the beginning of data. ok is false if it is not plausible.
func headerAt(data []byte) (b batch, ok bool) {
	if len(data) < headerBytes {
		return b, false
	}
	_ = b.ReadFrom(data) // the records, which come last, may be missing
	return b, b.Length >= headerBytes-beforeLength && b.Length <= maxBatchLength && b.Magic == 2 && b.LastOffsetDelta >= 0 && b.NumRecords >= 0
}

// batchAt returns the batch at the beginning of data, or the reason why there is no whole one.
func batchAt(data []byte) (b batch, reason string) {
	b, ok := headerAt(data)
	switch {
	case len(data) < headerBytes:
		return b, "the header of the batch there is truncated"
	case !ok:
		return b, "a batch header is missing"
	case b.size() > len(data):
		return b, "the batch there is truncated"
	}
	if b.raw = data[:b.size()]; uint32(b.CRC) != checksumOf(b.raw) {
		return b, "the checksum of the batch there is wrong"
	}
	return b, ""
}

func (b *batch) size() int  { return beforeLength + int(b.Length) }
func (b *batch) end() int64 { return b.FirstOffset + int64(b.LastOffsetDelta) + 1 }

// time returns the timestamp of a record in milliseconds.
func (b *batch) time(r *kmsg.Record) int64 {
	if b.Attributes&logAppendTime != 0 {
		return b.MaxTimestamp
	}
	return b.FirstTimestamp + r.TimestampDelta64
}

// records returns the records of a batch that is neither compressed nor part of a transaction. This program writes only such batches; false
// means another one.
func (b *batch) records() ([]kmsg.Record, bool) {
	if b.Attributes&(compressedBits|transactional|marker) != 0 {
		return nil, false
	}
	records, err := kfake.BatchRecords(b.RecordBatch)
	return records, err == nil
}

// with returns a batch for the same offsets with only the given records. Kafka's log cleaner does the same: readers see
// the gaps, and the end of the log does not change.
func (b *batch) with(records []kmsg.Record) []byte {
	kept := b.RecordBatch
	kept.Records, kept.NumRecords = nil, int32(len(records))
	kept.MaxTimestamp = noTime // a search by time must not stop at removed records
	for i := range records {
		kept.Records = records[i].AppendTo(kept.Records)
		kept.MaxTimestamp = max(kept.MaxTimestamp, b.time(&records[i]))
	}
	return encodeBatch(kept)
}

func encodeBatch(b kmsg.RecordBatch) []byte {
	b.Length = int32(headerBytes - beforeLength + len(b.Records))
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[atChecksum:], checksumOf(raw))
	return raw
}

func checksumOf(raw []byte) uint32 {
	return crc32.Checksum(raw[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// newEmpty returns batches without records that cover the offsets [from, to): one, or several if the range is too large.
func newEmpty(from, to int64) (raw []byte) {
	for from < to {
		n := min(to-from, math.MaxInt32)
		raw = append(raw, encodeBatch(kmsg.RecordBatch{FirstOffset: from, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: noTime,
			MaxTimestamp: noTime, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1})...)
		from += n
	}
	return raw
}

// age returns the age of a timestamp in milliseconds. Without a timestamp it is 0.
func age(now time.Time, milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return 0
	}
	return now.Sub(time.UnixMilli(milliseconds))
}
