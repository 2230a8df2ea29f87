package kafkalog

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceRaw writes messages with the given timestamps, in milliseconds, as one batch with these attributes.
func produceRaw(t *testing.T, l *Log, topic string, attributes int16, times ...int64) {
	t.Helper()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(len(times) - 1), FirstTimestamp: times[0],
		MaxTimestamp: times[0],
		ProducerID:   -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(times)),
	}
	for i, at := range times {
		b.MaxTimestamp = max(b.MaxTimestamp, at)
		r := kmsg.Record{TimestampDelta64: at - times[0], TimestampDelta: int32(at - times[0]), OffsetDelta: int32(i), Value: []byte("v")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	produceBatch(t, l, topic, raw)
}

// produceBatch writes an encoded batch.
func produceBatch(t *testing.T, l *Log, topic string, raw []byte) {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: raw}}}}
	noError(t, l.retry(testContext(t), "", "produce a batch", func(ctx context.Context) error { // a topic that was just created may have no leader
		leader, err := l.leader(ctx, topic, 0)
		if err != nil {
			return err
		}
		answer, err := l.write(ctx, leader, request)
		if err == nil {
			err = failure(answer.Topics[0].Partitions[0].ErrorCode)
		}
		return err
	}))
}

// times returns the timestamps of the messages of a partition, from a Range and from a Follower.
func times(t *testing.T, l *Log, topic string, n int) []time.Time {
	t.Helper()
	f := l.Follow(topic, 0, 0)
	defer f.Close()
	var all []time.Time
	for _, m := range follow(t, f, n) {
		all = append(all, m.Time)
	}
	got, _ := read(t, l, topic, 0, int64(n))
	if len(got) != n || len(all) != n {
		t.Fatalf("%d and %d messages, want %d", len(got), len(all), n)
	}
	for i, m := range got {
		if !m.Time.Equal(all[i]) {
			t.Errorf("message %d is of %v in a range, and of %v for a follower", i, m.Time, all[i])
		}
	}
	return all
}

// Each message has the timestamp of its producer, or none.
func testTimes(t *testing.T, l *Log, topic string) {
	now := time.Now().UnixMilli()
	noError(t, l.Create(testContext(t), Topic{Name: topic, Partitions: 1}))
	produceRaw(t, l, topic, 0, now-1000, now-3000, now)
	produceRaw(t, l, topic, 0, -1, -1)
	produceRaw(t, l, topic, 0, now-500)
	got := times(t, l, topic, 6)
	for i, want := range []int64{now - 1000, now - 3000, now, -1, -1, now - 500} {
		if want < 0 && !got[i].IsZero() || want >= 0 && got[i].UnixMilli() != want {
			t.Errorf("message %d is of %v, want %d", i, got[i], want)
		}
	}
	must(l.Append(testContext(t), topic, 0, numbered(6, 1)))(t)
	if last := times(t, l, topic, 7)[6]; time.Since(last) > time.Minute || last.After(time.Now()) {
		t.Errorf("what was appended now is of %v", last)
	}
}

// In a batch with LogAppendTime, all messages have the timestamp of the broker, whatever their producer set.
func TestBatchWithTheTimeOfTheBroker(t *testing.T) {
	const logAppendTime, appended = 1 << 3, 1_700_000_000_000
	dir := t.TempDir()
	l := openDir(t, dir)
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	for range 2 {
		produceRaw(t, l, "t", 0, 1_000_000, 7_000_000, 3_000_000)
	}
	noError(t, l.Close())
	// kfake has no such topics: the first batch is changed to Kafka's form.
	path := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	content := must(os.ReadFile(path))(t)
	first := content[:len(content)/2]
	binary.BigEndian.PutUint16(first[21:], logAppendTime)
	binary.BigEndian.PutUint64(first[35:], appended)
	binary.BigEndian.PutUint32(first[17:], crc32.Checksum(first[21:], crc32.MakeTable(crc32.Castagnoli)))
	noError(t, os.WriteFile(path, content, 0o644))
	for i, at := range times(t, openDir(t, dir), "t", 6) {
		if want := []int64{appended, appended, appended, 1_000_000, 7_000_000, 3_000_000}[i]; at.UnixMilli() != want {
			t.Errorf("message %d is of %d, want %d", i, at.UnixMilli(), want)
		}
	}
}
