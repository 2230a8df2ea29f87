package kafkalog

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func BenchmarkEmbedded(b *testing.B) { benchmarkLog(b, openEmbedded) }

// benchmarkLog measures appends and reads of messages of 800 KB, and the time from the start of an append until a follower
// returns the message.
func benchmarkLog(b *testing.B, open func(testing.TB) *Log) {
	const size = 800_000
	fresh := func(b *testing.B) (*Log, string) {
		l, topic := open(b), fmt.Sprintf("bench-%x", rand.Uint64())
		noError(b, l.Create(b.Context(), Topic{Name: topic, Partitions: 1}))
		b.Cleanup(func() { noError(b, l.Delete(testContext(b), topic)) })
		return l, topic
	}
	b.Run("append", func(b *testing.B) {
		l, topic := fresh(b)
		b.SetBytes(size)
		for b.Loop() {
			must(l.Append(b.Context(), topic, 0, numbered(0, size)))(b)
		}
	})
	b.Run("range", func(b *testing.B) {
		l, topic := fresh(b)
		const n = 200
		must(l.Append(b.Context(), topic, 0, numberedUpTo(n, size)...))(b)
		b.SetBytes(n * size)
		for b.Loop() {
			r := l.Range(topic, 0, 0, n)
			for {
				if _, err := r.Next(b.Context()); err == io.EOF {
					break
				} else {
					noError(b, err)
				}
			}
			noError(b, r.Close())
		}
	})
	b.Run("follow", func(b *testing.B) {
		l, topic := fresh(b)
		f := l.Follow(topic, 0, 0)
		defer f.Close()
		var delays []time.Duration
		for b.Loop() {
			start := time.Now()
			must(l.Append(b.Context(), topic, 0, numbered(0, 1000)))(b)
			must(f.Next(b.Context()))(b)
			delays = append(delays, time.Since(start))
		}
		slices.Sort(delays)
		b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "median-µs")
		b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "p99-µs")
	})
}
