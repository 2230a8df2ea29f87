package kafkalog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// encodedSet returns a record set encoded by kafka-go, after its length.
func encodedSet(t testing.TB, version int8, codec kafka.Compression, messages ...Message) []byte {
	t.Helper()
	list := make([]protocol.Record, len(messages))
	for i, m := range messages {
		list[i] = protocol.Record{Time: time.UnixMilli(5000), Key: protocol.NewBytes(m.Key), Value: protocol.NewBytes(m.Value)}
		for _, h := range m.Headers {
			list[i].Headers = append(list[i].Headers, protocol.Header{Key: h.Key, Value: h.Value})
		}
	}
	var b bytes.Buffer
	set := protocol.RecordSet{Version: version, Attributes: protocol.Attributes(codec), Records: protocol.NewRecordReader(list...)}
	must(set.WriteTo(&b))(t)
	return b.Bytes()
}

func fetched(batches []byte) *kmsg.FetchResponseTopicPartition {
	return &kmsg.FetchResponseTopicPartition{Partition: 3, RecordBatches: batches}
}

// Sets of each format and compression are decoded from any offset. A truncated or damaged batch is omitted, and is an error
// if it is the first.
func TestRecordSets(t *testing.T) {
	sent := []Message{{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", nil}}}, {Value: []byte{}}, {Key: []byte{}},
		{Value: make([]byte, 3000)}}
	sets := map[string][]byte{"ours": encode(sent, time.UnixMilli(5000))}
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		if sets["2 "+codec.String()] = encodedSet(t, 2, codec, sent...)[4:]; codec != kafka.Zstd { // which is newer than version 1
			sets["1 "+codec.String()] = encodedSet(t, 1, codec, sent...)[4:]
		}
	}
	for name, raw := range sets {
		for from := range int64(len(sent)) {
			got, next, err := decode(fetched(raw), from)
			if err != nil || len(got) != len(sent)-int(from) || next != int64(len(sent)) {
				t.Fatalf("%s: %d messages from %d on, then %d, %v", name, len(got), from, next, err)
			}
			for i, m := range got {
				want := sent[from+int64(i)]
				if m.Partition != 3 || m.Offset != from+int64(i) || m.Time.UnixMilli() != 5000 || !bytes.Equal(m.Key, want.Key) ||
					!bytes.Equal(m.Value, want.Value) || (m.Key == nil) != (want.Key == nil) || (m.Value == nil) != (want.Value == nil) ||
					name[0] != '1' && len(m.Headers) != len(want.Headers) {
					t.Errorf("%s: %+v, want %+v", name, m, want)
				}
			}
		}
		for _, second := range [][]byte{raw[:len(raw)-1], raw[:len(raw)/2], raw[:5]} {
			if got, _, err := decode(fetched(slices.Concat(raw, second)), 0); len(got) < len(sent) || err != nil {
				t.Errorf("%s, and %d bytes: %d messages, %v", name, len(second), len(got), err)
			}
		}
		for at := 16; name[0] != '1' && at < len(raw); at++ {
			damaged := slices.Clone(raw)
			damaged[at] ^= 1
			if got, next, err := decode(fetched(damaged), 0); err == nil {
				t.Fatalf("%s: byte %d is wrong, and there are %d messages, up to %d", name, at, len(got), next)
			}
		}
	}
	if got, next, err := decode(fetched(nil), 7); len(got) != 0 || next != 7 || err != nil {
		t.Errorf("nothing: %d messages, %d, %v", len(got), next, err)
	}
}

// For any input, decoding ends with an error, or at a later offset, with messages before it in ascending order.
func FuzzRecordSet(f *testing.F) {
	f.Add(encodedSet(f, 2, 0, Message{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", nil}}})[4:], int64(0))
	f.Add(encodedSet(f, 2, 0, Message{Value: []byte("v")}, Message{Key: []byte{}})[4:], int64(1))
	f.Add(encodedSet(f, 1, 0, Message{Value: []byte("v")}, Message{Key: []byte{}})[4:], int64(1))
	f.Fuzz(func(t *testing.T, sent []byte, from int64) {
		from = max(from, 0)
		if len(sent) > 21 && sent[16] == 2 { // a valid checksum, so that damage is not always detected by it
			sent[22] &^= 0b111
			binary.BigEndian.PutUint32(sent[8:], uint32(len(sent)-12))
			binary.BigEndian.PutUint32(sent[17:], crc32.Checksum(sent[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		messages, next, err := decode(fetched(sent), from)
		if err != nil {
			return
		}
		if len(sent) > 0 && next <= from {
			t.Errorf("%d bytes do not move from %d: %d", len(sent), from, next)
		}
		for _, m := range messages {
			if m.Offset < from || m.Offset >= next {
				t.Errorf("offset %d in [%d, %d)", m.Offset, from, next)
			}
			from = m.Offset + 1
		}
	})
}
