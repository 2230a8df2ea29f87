package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A message is decoded again only after its eviction, if its content differs, or if it is too large for the cache.
func TestCodecDecodesJSONOnce(t *testing.T) {
	codec, calls := NewCodec(nil, 0), 0
	once := func(m wire.Message) (again bool) {
		t.Helper()
		before := calls
		value, err := codec.Once(m, func(m wire.Message) (any, error) {
			calls++
			return string(m.Value), nil
		})
		if err != nil || value != string(m.Value) {
			t.Fatalf("%s decodes to %v: %v", m.Key, value, err)
		}
		return calls > before
	}
	message := func(key, value string) wire.Message {
		return wire.Message{Key: key, Value: []byte(value), Headers: []wire.Header{{Key: "kind", Value: string(schemas.KindEnd)}}}
	}
	a := message("a", "1")
	if !once(a) || once(a) {
		t.Error("a message was not decoded, or twice")
	}
	if !once(message("a", "2")) {
		t.Error("another content of the same key was not decoded")
	}
	other := message("a", "2")
	other.Headers = []wire.Header{{Key: "kind", Value: string(schemas.KindPin)}}
	if !once(other) {
		t.Error("another kind of the same key was not decoded")
	}
	long := message("long", strings.Repeat("x", rememberedMessage+1))
	if once(long); !once(long) {
		t.Error("a message that is too long was remembered")
	}
	once(a)
	for i := range 64 { // eight times the capacity
		if once(message(fmt.Sprint(i), strings.Repeat("x", rememberedMessage))); once(a) {
			t.Fatalf("a message that is asked for again and again was forgotten after %d others", i)
		}
	}
	if !once(message("0", strings.Repeat("x", rememberedMessage))) {
		t.Error("the oldest message was not forgotten")
	}
	failing := errors.New("damaged")
	for range 2 {
		_, err := codec.Once(message("b", "1"), func(wire.Message) (any, error) { return nil, failing })
		if !errors.Is(err, failing) {
			t.Errorf("got %v, expected %v", err, failing)
		}
	}
	if !once(message("b", "1")) {
		t.Error("an error was remembered")
	}
}
