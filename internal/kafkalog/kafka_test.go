//go:build kafka

package kafkalog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// TestKafka runs what must hold of every log against real brokers.
func TestKafka(t *testing.T) {
	testLog(t, openKafka, func(t *testing.T, l *Log, topic string) {
		// Only closed segments are compacted, and a segment closes when a message comes after segment.ms. The test's
		// duplicates are gone when fewer messages are left than it wrote.
		ctx := testContext(t)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			_, end, err := l.Bounds(ctx, topic, 0)
			noError(t, err)
			left, err := read(t, l, topic, 0, end)
			if len(left) < 30 {
				return
			}
			select {
			case <-tick.C:
				must(l.Append(ctx, topic, 0, Message{Key: []byte("!"), Value: []byte("!")}))(t)
			case <-ctx.Done():
				t.Fatalf("not compacted: %d messages are left, %v", len(left), err)
			}
		}
	})
}

func TestKafkaDeadMember(t *testing.T) {
	l := openKafka(t)
	l.session, l.heartbeat = 6*time.Second, 500*time.Millisecond // the shortest that brokers take
	topic := fmt.Sprintf("test-%x", rand.Uint64())
	t.Cleanup(func() { noError(t, l.Delete(testContext(t), topic)) })
	testDeadMember(t, l, topic)
}

func openKafka(t testing.TB) *Log {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	if brokers == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: start brokers with `scripts/kafka-up.sh start`, " +
			"which prints their addresses, and put these into STAGEWISE_KAFKA")
	}
	l, err := Open(testContext(t), Options{Brokers: strings.Split(brokers, ",")})
	noError(t, err)
	t.Cleanup(func() { noError(t, l.Close()) })
	return l
}

func BenchmarkKafka(b *testing.B) { benchmarkLog(b, openKafka) }
