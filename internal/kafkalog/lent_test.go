package kafkalog

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A writer may overwrite the values of messages that it has lent: the log and its followers have other memory.
func TestLentMessages(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	f := l.Follow("t", 0, 0)
	defer f.Close()
	value := make([]byte, 3000)
	const all = 20
	for i := range all {
		for at := range value {
			value[at] = byte(i)
		}
		base, kept, err := l.AppendLent(ctx, "t", 0, Message{Value: value}, Message{Value: value[:10]})
		noError(t, err)
		if base != int64(2*i) || kept {
			t.Fatalf("offset %d, kept %v", base, kept)
		}
		if i == 0 {
			follow(t, f, 1) // follows from now on
		}
	}
	clear(value)
	written, _ := read(t, l, "t", 0, 2*all)
	for from, messages := range map[int][]Message{0: written, 1: follow(t, f, 2*all-1)} {
		for i, m := range messages {
			i += from
			if want := []int{3000, 10}[i%2]; len(m.Value) != want || m.Value[0] != byte(i/2) || m.Value[want-1] != byte(i/2) {
				t.Errorf("message %d has %d bytes, of %d", i, len(m.Value), m.Value[0])
			}
		}
	}
}

// After a broken connection a writer must not overwrite the values, which the request may still be sending.
func TestLentMessagesOfRepeatedRequests(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	l.broker.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
	for _, want := range []bool{true, false} {
		_, kept, err := l.AppendLent(ctx, "t", 0, Message{Value: []byte("value")})
		noError(t, err)
		if kept != want {
			t.Errorf("kept is %v, expected %v", kept, want)
		}
	}
	if _, kept, err := l.AppendLent(ctx, "none", 0, Message{Value: []byte("value")}); err == nil || !kept {
		t.Errorf("kept is %v after the error %v", kept, err)
	}
}
