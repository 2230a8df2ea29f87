package kafkalog

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/segmentio/kafka-go"
)

// Batches before a decompression bomb are read. The bomb is an error that names its offset, and decompression stops at the
// limit.
func TestDecompressionBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	l := openEmbedded(t)
	zeros := make([]byte, 1<<20)
	for _, codec := range []kafka.Compression{kafka.Lz4, kafka.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			topic := "bombs." + codec.String()
			noError(t, l.Create(t.Context(), Topic{Name: topic, Partitions: 1,
				Config: map[string]string{"max.message.bytes": "104857600"}}))
			write := func(messages int) {
				t.Helper()
				list := make([]Message, messages)
				for i := range list {
					list[i].Value = zeros
				}
				produceBatch(t, l, topic, encodedSet(t, 2, codec, list...)[4:])
			}
			write(3)
			write(268435456/len(zeros) + 1)
			r := l.Range(topic, 0, 0, 4)
			defer r.Close()
			for i := range 3 {
				if m, err := r.Next(t.Context()); err != nil || m.Offset != int64(i) || len(m.Value) != len(zeros) {
					t.Fatalf("%d bytes at %d, %v", len(m.Value), m.Offset, err)
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := r.Next(t.Context())
			runtime.ReadMemStats(&after)
			if want := fmt.Sprintf("read %s[0]@3: ", topic); !errors.As(err, new(batchError)) || err.Error()[:len(want)] != want {
				t.Errorf("%v", err)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 2*268435456 {
				t.Errorf("%d bytes were allocated", spent)
			}
		})
	}
}
