package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Follower reads a partition as it grows, with [Log.FollowAll].
type Follower struct {
	SkipDeleted bool // is set before the first Next

	log   *Log
	start Start
	pages chan page // nil until the first Next
	stop  context.CancelFunc
	ended error
}

func (l *Log) Follow(topic string, partition int, from int64) *Follower {
	return &Follower{log: l, start: Start{Topic: topic, Partition: partition, Offset: from}}
}

func (f *Follower) Next(ctx context.Context) (Message, error) {
	if f.pages == nil && f.ended == nil {
		var following context.Context
		following, f.stop = context.WithCancel(context.Background())
		f.start.SkipDeleted, f.pages = f.SkipDeleted, make(chan page)
		go func() {
			defer close(f.pages)
			f.log.FollowAll(following, []Start{f.start}, func(_ int, m *Message, err error) bool {
				next := page{err: err}
				if m != nil {
					next.messages = []Message{*m}
				}
				select {
				case f.pages <- next:
					return true
				case <-following.Done():
					return false
				}
			})
		}()
	}
	if f.ended != nil {
		return Message{}, f.ended
	}
	select {
	case p := <-f.pages:
		if p.err != nil {
			return Message{}, p.err
		}
		return p.messages[0], nil
	case <-ctx.Done():
		return Message{}, ctx.Err()
	}
}

func (f *Follower) Close() error {
	if f.pages != nil && f.ended == nil {
		f.stop()
		for range f.pages { // until FollowAll has returned
		}
	}
	f.ended = ErrClosed
	return nil
}

// received collects the deliveries of FollowAll.
type received struct {
	mutex    sync.Mutex
	messages map[int][]Message // by partition
	lost     int
	failures []error
	until    func(*received) bool
}

func (r *received) take(at int, m *Message, err error) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case err != nil:
		r.failures = append(r.failures, err)
	case m == nil:
		r.lost++
	default:
		r.messages[at] = append(r.messages[at], *m)
	}
	return !r.until(r)
}

func (r *received) count() (n int) {
	for _, list := range r.messages {
		n += len(list)
	}
	return n
}

// FollowAll delivers each message of many partitions once, in order, existing and later ones, including large ones, and
// the remaining ones of a topic that has lost messages.
func TestFollowAll(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	const partitions, each = 40, 6
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: partitions}))
	write := func(p, from, to int) {
		for i := from; i < to; i++ {
			must(l.Append(ctx, "t", p, numbered(i, 10+p%3*200_000)))(t)
		}
	}
	var starts []Start
	for p := range partitions {
		write(p, 0, 3)
		starts = append(starts, Start{Topic: "t", Partition: p, Offset: int64(p % 2)})
	}
	noError(t, l.DeleteBefore(ctx, "t", 7, 2))
	starts[7].SkipDeleted = true
	noError(t, l.DeleteBefore(ctx, "t", 8, 2)) // an error without SkipDeleted
	starts[9].SkipDeleted, starts[9].Offset = true, 5
	r := &received{messages: map[int][]Message{}}
	r.until = func(r *received) bool {
		return r.count() == 19*each+18*(each-1)+4 && r.lost == 1 && len(r.failures) == 1
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range partitions {
			if p != 9 {
				write(p, 3, each)
			}
		}
	})
	l.FollowAll(ctx, starts, r.take)
	writing.Wait()
	if !errors.As(r.failures[0], new(*DeletedError)) {
		t.Errorf("deleted messages: %v", r.failures)
	}
	for p, got := range r.messages {
		var want []int64
		for offset := starts[p].Offset; offset < each; offset++ {
			if p != 7 || offset >= 2 {
				want = append(want, offset)
			}
		}
		if p != 9 && !slices.Equal(offsets(got), want) {
			t.Errorf("partition %d: offsets %d, expected %d", p, offsets(got), want)
		}
	}
}

// An idle follower of a thousand partitions sends two requests a second, over one connection; one of a topic that does not
// exist ends.
func TestFollowAllIsIdle(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 300}))
	var starts []Start
	for p := range 300 {
		starts = append(starts, Start{Topic: "t", Partition: p})
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	r := &received{messages: map[int][]Message{}, until: func(r *received) bool { return r.count() == 1 }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.FollowAll(following, starts, r.take)
	}()
	must(l.Append(ctx, "t", 299, Message{Value: []byte("x")}))(t)
	<-done
	if fmt.Sprint(offsets(r.messages[299])) != "[0]" {
		t.Errorf("got %v", r.messages)
	}
	l.unknownTimeout = 0
	r = &received{messages: map[int][]Message{}, until: func(r *received) bool { return len(r.failures) > 0 }}
	l.FollowAll(ctx, []Start{{Topic: "none"}}, r.take)
	if len(r.failures) != 1 || !errors.Is(r.failures[0], ErrUnknownTopic) {
		t.Errorf("a topic that does not exist: %v", r.failures)
	}
}

func offsets(messages []Message) (list []int64) {
	for _, m := range messages {
		list = append(list, m.Offset)
	}
	return list
}

// follow returns the next count messages of a follower.
func follow(t testing.TB, f *Follower, count int) (messages []Message) {
	t.Helper()
	for range count {
		messages = append(messages, must(f.Next(testContext(t)))(t))
	}
	return messages
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
