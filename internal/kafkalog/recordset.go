package kafkalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
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

// recordSet is the batches of a record set. A set in the format before Kafka 0.11 has a batch for each message, or for those that are compressed
// together.
type recordSet struct{ batches []encoded }

// ReadFrom reads a record set, each batch into memory of its own. It leaves out the last if that is cut off.
func (s *recordSet) ReadFrom(r io.Reader) (n int64, err error) {
	read := func(b []byte) {
		if err == nil {
			var more int
			more, err = io.ReadFull(r, b)
			n += int64(more)
		}
	}
	var length [4]byte
	read(length[:])
	end := n + int64(int32(binary.BigEndian.Uint32(length[:]))) // there is no set if the length is −1
	for err == nil && end-n > recordbatch.AtMagic {
		var header [recordbatch.AtMagic + 1]byte
		read(header[:])
		size := recordbatch.BeforeLength + int64(encoded(header[:]).int32(recordbatch.AtLength))
		if err == nil && size <= recordbatch.AtMagic {
			err = fmt.Errorf("a batch has a length of %d bytes", size)
		}
		if err != nil || size > end-n+int64(len(header)) {
			break
		}
		batch := make(encoded, size)
		read(batch[copy(batch, header[:]):])
		s.batches = append(s.batches, batch)
	}
	if err == nil && n < end {
		var rest int64
		rest, err = io.CopyN(io.Discard, r, end-n)
		n += rest
	}
	return n, err
}

// WriteTo is a part of what kafka-go registers. Only a broker writes answers.
func (*recordSet) WriteTo(io.Writer) (int64, error) { return 0, errors.ErrUnsupported }

// encoded is a batch as it is sent.
type encoded []byte

func (e encoded) int32(at int) int32 { return int32(binary.BigEndian.Uint32(e[at:])) }
func (e encoded) int64(at int) int64 { return int64(binary.BigEndian.Uint64(e[at:])) }

func (e encoded) base() int64     { return e.int64(0) }
func (e encoded) producer() int64 { return e.int64(recordbatch.AtProducer) }

func (e encoded) has(attribute uint16) bool {
	return binary.BigEndian.Uint16(e[recordbatch.AtAttributes:])&attribute != 0
}

// next returns the offset after those that the batch covers. Compaction and markers leave offsets without a record.
func (e encoded) next() int64 { return e.base() + int64(e.int32(recordbatch.AtLastDelta)) + 1 }

// headed reports whether a batch has the header of Kafka 0.11 and later, and returns an error if what it has is damaged.
func (e encoded) headed() (bool, error) {
	switch version := e[recordbatch.AtMagic]; {
	case version < 2: // kafka-go checks those
		return false, nil
	case version > 2:
		return false, fmt.Errorf("the batch at offset %d has version %d, which this program does not know", e.base(), version)
	case len(e) < recordbatch.HeaderBytes || e.int32(recordbatch.AtCount) < 0 || e.int32(recordbatch.AtLastDelta) < 0:
		return false, fmt.Errorf("the header of the batch at offset %d is damaged", e.base())
	case uint32(e.int32(recordbatch.AtChecksum)) != recordbatch.Checksum(e):
		return false, fmt.Errorf("the batch at offset %d has another checksum than its header says", e.base())
	}
	return true, nil
}

// plain returns the messages of a batch from an offset on, if it is not compressed. A message that is more than half of a batch shares its bytes.
// Others are copied: each would keep all of the batch in memory.
func (e encoded) plain(partition int, from int64) ([]Message, error) {
	var messages []Message
	d := recordbatch.Decoder{Rest: e[recordbatch.HeaderBytes:], OK: true}
	for range e.int32(recordbatch.AtCount) {
		r := recordbatch.Decoder{Rest: d.Bytes(), OK: true}
		r.Take(1) // attributes, of which there are none
		milliseconds := e.int64(recordbatch.AtFirstTime) + r.Varint()
		m := Message{Partition: partition, Offset: e.base() + r.Varint(), Time: e.time(milliseconds), Key: r.Bytes(), Value: r.Bytes()}
		for headers := r.Varint(); headers > 0 && r.OK; headers-- {
			m.Headers = append(m.Headers, Header{string(r.Bytes()), r.Bytes()})
		}
		if !d.OK || !r.OK {
			return nil, fmt.Errorf("the records of the batch at offset %d are damaged", e.base())
		}
		if m.Offset < from {
			continue
		}
		if len(m.Key)+len(m.Value) <= len(e)/2 {
			m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
			for i, h := range m.Headers {
				m.Headers[i].Value = bytes.Clone(h.Value)
			}
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// aborts reports whether a marker says that its transaction was aborted. ok is false if there is no record in it.
func (e encoded) aborts() (abort, ok bool) {
	const typeAt, abortType = 2, 0 // of the control record's key; 1 is commit
	d := recordbatch.Decoder{Rest: e[recordbatch.HeaderBytes:], OK: true}
	r := recordbatch.Decoder{Rest: d.Bytes(), OK: true}
	r.Take(1)
	r.Varint()
	r.Varint()
	key := r.Bytes()
	if !d.OK || !r.OK || len(key) < typeAt+2 {
		return false, false
	}
	return binary.BigEndian.Uint16(key[typeAt:]) == abortType, true
}

// time returns the time of a record that says its own is another.
func (e encoded) time(milliseconds int64) time.Time {
	if e.has(recordbatch.LogAppendTime) {
		milliseconds = e.int64(recordbatch.AtMaxTime)
	}
	return timeOf(milliseconds)
}

// timeOf returns the time of a message that has it in Kafka. The producers of old clients write −1 for none.
func timeOf(milliseconds int64) time.Time {
	if milliseconds < 0 {
		return time.Time{}
	}
	return time.UnixMilli(milliseconds)
}

// records returns a reader of a batch that is compressed, or of an old format.
func (e encoded) records() (protocol.RecordReader, error) {
	var set protocol.RecordSet
	sent := append(binary.BigEndian.AppendUint32(nil, uint32(len(e))), e...)
	if _, err := set.ReadFrom(bytes.NewBuffer(sent)); err != nil {
		return nil, err
	}
	if set.Records == nil {
		return protocol.NewRecordReader(), nil
	}
	return set.Records, nil
}
