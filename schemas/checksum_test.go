package schemas

import (
	"testing"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Messages with other bytes or another time have other checksums.
func TestMessageChecksum(t *testing.T) {
	seen := map[string]bool{}
	for _, value := range []string{"", "a", "b"} {
		for _, at := range []int64{0, 1, 1700000000000} {
			seen[MessageChecksum(wire.Message{Value: []byte(value)}, at)] = true
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d checksums of 9 messages", len(seen))
	}
}
