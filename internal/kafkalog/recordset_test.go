package kafkalog

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// encodedSet returns a record set encoded by kafka-go.
func encodedSet(t testing.TB, version int8, codec kafka.Compression, messages ...Message) []byte {
	t.Helper()
	var b bytes.Buffer
	set := protocol.RecordSet{Version: version, Attributes: protocol.Attributes(codec),
		Records: protocol.NewRecordReader(records(messages, time.UnixMilli(5000))...)}
	must(set.WriteTo(&b))(t)
	return b.Bytes()
}

// Sets of each format and compression are decoded as by kafka-go.
func TestRecordSets(t *testing.T) {
	sent := []Message{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte{}}, {Key: []byte{}}, {Value: make([]byte, 3000)}}
	for _, version := range []int8{1, 2} {
		for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
			if version == 1 && codec == kafka.Zstd {
				continue // is newer
			}
			raw := encodedSet(t, version, codec, sent...)
			var set recordbatch.Set
			if n, err := set.ReadFrom(bytes.NewReader(append(slices.Clone(raw), 1, 2))); n != int64(len(raw)) || err != nil {
				t.Fatalf("version %d, %s: %d bytes of %d, %v", version, codec, n, len(raw), err)
			}
			for from := range int64(len(sent) + 1) {
				batches, err := decode(set, nil, 3, from)
				noError(t, err)
				c, got := cursor{position: from, to: unbounded}, []Message(nil)
				got = c.move(batches)
				if len(got) != len(sent)-int(from) || c.position != max(from, int64(len(sent))) {
					t.Fatalf("version %d, %s: %d messages from %d on, then %d", version, codec, len(got), from, c.position)
				}
				for i, m := range got {
					want := sent[from+int64(i)]
					if m.Partition != 3 || m.Offset != from+int64(i) || m.Time.UnixMilli() != 5000 || !bytes.Equal(m.Key, want.Key) ||
						!bytes.Equal(m.Value, want.Value) ||
						(m.Key == nil) != (want.Key == nil) || (m.Value == nil) != (want.Value == nil) {
						t.Errorf("version %d, %s: %+v, want %+v", version, codec, m, want)
					}
				}
			}
			// A truncated batch is omitted, and so is a damaged one, until it is the first.
			next := encodedSet(t, version, codec, sent...)[4:]
			for _, second := range [][]byte{next[:len(next)-1], next[:len(next)/2], next[:5], nil} {
				both := slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(raw)-4+len(second))), raw[4:], second)
				set = recordbatch.Set{}
				n, err := set.ReadFrom(bytes.NewReader(both))
				if batches, _ := decode(set, nil, 0, 0); n != int64(len(both)) || err != nil ||
					len((&cursor{to: unbounded}).move(batches)) < len(sent) {
					t.Errorf("version %d, %s, and %d bytes: %d of %d, %v", version, codec, len(second), n, len(both), err)
				}
			}
			if version == 2 {
				for at := recordbatch.AtMagic; at < len(raw)-4; at++ {
					damaged := slices.Clone(raw)
					damaged[4+at] ^= 1
					set = recordbatch.Set{}
					must(set.ReadFrom(bytes.NewReader(damaged)))(t)
					if batches, err := decode(set, nil, 0, 0); err == nil {
						t.Fatalf("%s: byte %d is wrong, and there are %d batches", codec, at, len(batches))
					}
				}
			}
		}
	}
	var set recordbatch.Set
	if n, err := set.ReadFrom(bytes.NewReader([]byte{255, 255, 255, 255})); n != 4 || err != nil || len(set.Batches) != 0 {
		t.Errorf("no set: %d, %v", n, err)
	}
}

// For any input, reading ends, with messages or an error. Compressed and old formats are read by kafka-go.
func FuzzRecordSet(f *testing.F) {
	f.Add(encodedSet(f, 2, 0, Message{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", nil}}}), int64(0))
	f.Add(encodedSet(f, 2, 0, Message{Value: []byte("v")}, Message{Key: []byte{}}), int64(1))
	f.Fuzz(func(t *testing.T, sent []byte, from int64) {
		var set recordbatch.Set
		if len(sent) > 4 {
			binary.BigEndian.PutUint32(sent, uint32(len(sent)-4))
		}
		if _, err := set.ReadFrom(bytes.NewReader(sent)); err != nil {
			return
		}
		for _, e := range set.Batches { // set valid checksums, so that damage is not always detected by them
			if e[recordbatch.AtMagic] = max(e[recordbatch.AtMagic], 2); len(e) >= recordbatch.HeaderBytes {
				e[recordbatch.AtAttributes+1] &^= recordbatch.Compressed
				binary.BigEndian.PutUint32(e[recordbatch.AtChecksum:], recordbatch.Checksum(e))
			}
		}
		_, _ = decode(set, nil, 0, from)
	})
}
