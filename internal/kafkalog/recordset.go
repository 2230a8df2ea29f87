package kafkalog

import (
	"bytes"
	"encoding/binary"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"
)

// kafka-go reads a record set into records, and drops what the headers of its batches say: when the broker got them, and which offsets they
// cover. So answers to a fetch are registered here with the bytes of the set. kafka-go has one table for the whole process: its own
// Client.Fetch can't be used beside this package.
func init() { protocol.Register(&fetchapi.Request{}, &fetchAnswer{}) }

// fetchAnswer is fetchapi.Response with the bytes of each record set.
type fetchAnswer struct {
	ThrottleTimeMs int32         `kafka:"min=v1,max=v11"`
	ErrorCode      int16         `kafka:"min=v7,max=v11"`
	SessionID      int32         `kafka:"min=v7,max=v11"`
	Topics         []fetchTopics `kafka:"min=v0,max=v11"`
}

type fetchTopics struct {
	Topic      string            `kafka:"min=v0,max=v11"`
	Partitions []fetchPartitions `kafka:"min=v0,max=v11"`
}

type fetchPartitions struct {
	Partition            int32                          `kafka:"min=v0,max=v11"`
	ErrorCode            int16                          `kafka:"min=v0,max=v11"`
	HighWatermark        int64                          `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                          `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                          `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetchapi.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                          `kafka:"min=v11,max=v11"`
	RecordSet            recordSet                      `kafka:"min=v0,max=v11"`
}

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// recordSet is a record set with its length before it, as it is sent. It is empty if there is none.
type recordSet struct{ bytes []byte }

const lengthBytes = 4

// ReadFrom reads a record set.
func (s *recordSet) ReadFrom(r io.Reader) (int64, error) {
	var length [lengthBytes]byte
	if n, err := io.ReadFull(r, length[:]); err != nil {
		return int64(n), err
	}
	size := int64(int32(binary.BigEndian.Uint32(length[:])))
	if size <= 0 {
		return lengthBytes, nil
	}
	var b bytes.Buffer
	b.Grow(lengthBytes + int(min(size, fetchBytes)) + bytes.MinRead)
	b.Write(length[:])
	n, err := b.ReadFrom(io.LimitReader(r, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	s.bytes = b.Bytes()
	return lengthBytes + n, err
}

// WriteTo is a part of what kafka-go registers. Only a broker writes record sets.
func (s *recordSet) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s.bytes)
	return int64(n), err
}

// batchHeader is what the header of a batch says of its records.
type batchHeader struct {
	next     int64 // the offset after those that it covers: compaction and markers leave offsets without a record
	appended bool  // the topic's times are those at which the broker got the messages, which is the latest for all of them
	latest   int64 // in milliseconds
}

// headers returns the headers of the batches by the first of their offsets. Sets in the format before Kafka 0.11 have none.
func (s recordSet) headers() map[int64]batchHeader {
	// The layout of a record batch: https://kafka.apache.org/documentation/#recordbatch
	const (
		atLength      = 8
		beforeLength  = 12 // what the length does not count
		atMagic       = 16
		atAttributes  = 21
		atLastDelta   = 23
		atMaxTime     = 35
		headerBytes   = 61
		logAppendTime = 1 << 3
	)
	headers := map[int64]batchHeader{}
	for rest := s.bytes[lengthBytes:]; len(rest) >= headerBytes; {
		size := beforeLength + int64(int32(binary.BigEndian.Uint32(rest[atLength:])))
		if size < beforeLength || size > int64(len(rest)) {
			break // its end is missing
		}
		if rest[atMagic] == 2 && size >= headerBytes {
			base := int64(binary.BigEndian.Uint64(rest))
			headers[base] = batchHeader{
				next:     base + int64(int32(binary.BigEndian.Uint32(rest[atLastDelta:]))) + 1,
				appended: binary.BigEndian.Uint16(rest[atAttributes:])&logAppendTime != 0,
				latest:   int64(binary.BigEndian.Uint64(rest[atMaxTime:])),
			}
		}
		rest = rest[size:]
	}
	return headers
}

// time returns the time of a record of a batch, which the record says is another.
func (h batchHeader) time(record time.Time) time.Time {
	if h.appended {
		return timeOf(time.UnixMilli(h.latest))
	}
	return record
}

// timeOf returns the time of a message that has it in Kafka. The producers of old clients write −1 for none.
func timeOf(t time.Time) time.Time {
	if t.UnixMilli() < 0 {
		return time.Time{}
	}
	return t
}
