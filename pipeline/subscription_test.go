package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Who follows a control topic outlives an unclean election, after which it ends before the offset that is followed: it is told to look what
// is there, and gets what is written from then on. For other topics that is an error.
func TestSubscriptionOutlivesLostMessages(t *testing.T) {
	log := openEmbedded(t)
	if err := log.Create(t.Context(), kafkalog.Topic{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	l := topics.Open(log, "test", nil).Log
	write := func(want int64) {
		t.Helper()
		if at, err := l.Append(t.Context(), "t", 0, wire.Message{Key: "k", Value: []byte("v")}); err != nil || at != want {
			t.Fatalf("written at %d, error %v", at, err)
		}
	}
	write(0)
	write(1)
	followed := protocol.Position{Topic: "t", Offset: 5, Compacted: true}
	control := l.Subscribe(t.Context(), nil, followed)
	defer control.Close()
	if d, late, err := control.Next(t.Context(), time.Hour); d != nil || !late || err != nil {
		t.Fatalf("got %+v, late %v, error %v; expected to be late", d, late, err)
	}
	write(2)
	if d, _, err := control.Next(t.Context(), time.Hour); err != nil || d == nil || d.Offset != 2 {
		t.Fatalf("got %+v, error %v; expected the message at offset 2", d, err)
	}
	followed.Compacted = false
	other := l.Subscribe(t.Context(), nil, followed)
	defer other.Close()
	if _, _, err := other.Next(t.Context(), time.Hour); !errors.As(err, new(*kafkalog.DeletedError)) {
		t.Errorf("got error %v, expected one that says what is gone", err)
	}
}
