package kafkalog

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
)

// follow returns the next count messages of a follower.
func follow(t testing.TB, f *Follower, count int) (messages []Message) {
	t.Helper()
	for range count {
		messages = append(messages, must(f.Next(testContext(t)))(t))
	}
	return messages
}

// A follower of a broker without a listener gets each message once, in order, like a range, from any start position and
// with concurrent writers.
func TestFollowersGetWhatRangesRead(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	_, err := l.Append(ctx, "t", 0, numberedUpTo(5, 10)...) // one batch
	noError(t, err)
	early, within := l.Follow("t", 0, 0), l.Follow("t", 0, 3)
	defer early.Close()
	defer within.Close()
	follow(t, early, 1) // follows from now on
	follow(t, within, 1)
	const writers, each = 4, 40
	var writing errgroup.Group
	for w := range writers {
		writing.Go(func() error {
			for i := range each {
				m := numbered(w*each+i, 3000)
				m.Key, m.Headers = fmt.Appendf(nil, "key %d", i), []Header{{"h", []byte("1")}, {"h", nil}}
				if _, err := l.Append(ctx, "t", 0, m, Message{Key: m.Key}); err != nil { // a tombstone
					return err
				}
			}
			return nil
		})
	}
	noError(t, writing.Wait())
	const all = 5 + 2*writers*each
	want, err := read(t, l, "t", 0, all)
	if err != io.EOF {
		t.Fatal(err)
	}
	late := l.Follow("t", 0, 7)
	defer late.Close()
	for from, f := range map[int]*Follower{1: early, 4: within, 7: late} {
		got := follow(t, f, all-from)
		same := func(a, b Message) bool {
			return a.Offset == b.Offset && a.Partition == b.Partition && a.Time.Equal(b.Time) && bytes.Equal(a.Key, b.Key) &&
				bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) &&
				slices.EqualFunc(a.Headers, b.Headers, func(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) })
		}
		if !slices.EqualFunc(got, want[from:], same) {
			t.Errorf("from %d: %v", from, texts(got))
		}
	}
}

// Messages written while there are followers are not read from the broker, and messages that all followers have are not
// kept in memory.
func TestFollowersShareWhatIsWritten(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	followers := []*Follower{l.Follow("t", 0, 0), l.Follow("t", 0, 0)}
	shared := make([]bool, len(followers)) // whether the last message was shared
	write := func(i int) {
		m := numbered(i, 10)
		_, err := l.Append(ctx, "t", 0, m)
		noError(t, err)
		for n, f := range followers {
			now := &follow(t, f, 1)[0].Value[0] == &m.Value[0]
			if shared[n] && !now {
				t.Errorf("follower %d fetched message %d, and not the one before", n, i)
			}
			shared[n] = now
		}
	}
	i := 0
	for ; slices.Contains(shared, false); i++ { // followers fetch while they start
		noError(t, ctx.Err())
		write(i)
	}
	for range 10 {
		write(i)
		i++
	}
	noError(t, followers[0].Close())
	l.tail.mutex.Lock()
	if p := l.tail.partitions[topicPartition{"t", 0}]; p.bytes != 0 || len(p.batches) != 0 {
		t.Errorf("%d bytes of %d batches stay", p.bytes, len(p.batches))
	}
	l.tail.mutex.Unlock()
	noError(t, followers[1].Close())
	if len(l.tail.partitions) != 0 {
		t.Errorf("%v stay", l.tail.partitions)
	}
}

// A slow follower fetches messages that the tail has dropped.
func TestSlowFollowerMissesNothing(t *testing.T) {
	tail, s := newTail(), &source{topic: "t", cursor: cursor{to: unbounded}}
	tail.join(s)
	at, large := topicPartition{"t", 0}, Message{Value: make([]byte, maxTailBytes)}
	for offset := range int64(3) {
		tail.begin(at)
		tail.end(at, offset, large.Time, []Message{large}, false)
	}
	if messages, _, _ := tail.poll(s); len(messages) != 1 || s.position != 1 {
		t.Fatalf("%d messages, then position %d", len(messages), s.position)
	}
	if messages, _, fetch := tail.poll(s); len(messages) != 0 || !fetch {
		t.Fatalf("%d messages, fetches: %v", len(messages), fetch)
	}
}

// A follower fetches once more after a failed write, which may still be applied, but not while the response to another
// write is pending, which may have the awaited messages.
func TestFailedWriteIsFetched(t *testing.T) {
	tail, s := newTail(), &source{topic: "t", cursor: cursor{to: unbounded}}
	tail.join(s)
	at := topicPartition{"t", 0}
	fetches := func() bool { _, _, fetch := tail.poll(s); return fetch }
	tail.begin(at)
	tail.begin(at)
	tail.end(at, 0, Message{}.Time, nil, false)
	if fetches() {
		t.Error("fetched while a write is under way")
	}
	tail.end(at, 1, Message{}.Time, []Message{{}}, false) // at offset 1: the failed one has offset 0
	if !fetches() {
		t.Error("not fetched")
	}
	if fetches() {
		t.Error("fetched again")
	}
}

// Messages of a deleted topic do not belong to a later topic with the same name.
func TestTailOfDeletedTopic(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	for round := range 2 {
		noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
		f := l.Follow("t", 0, 0)
		defer f.Close()
		for i := range 3 {
			_, err := l.Append(ctx, "t", 0, numbered(10*round+i, 10))
			noError(t, err)
		}
		if got := texts(follow(t, f, 3)); !slices.Equal(got, numbers(10*round, 10*round+3)) {
			t.Errorf("round %d: %v", round, got)
		}
		noError(t, l.Delete(ctx, "t"))
	}
}

// A broker without a listener passes the common tests.
func TestEmbeddedWithoutPort(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *Log, string){
		"round trip": testRoundTrip, "large": testLarge, "larger": testLarger, "deleted": testDeleted, "deleted before": testDeleteBefore,
		"recreated": testRecreated, "follow": testFollow, "partitions": testPartitions,
	} {
		t.Run(name, func(t *testing.T) { test(t, openEmbedded(t), "t") })
	}
}
