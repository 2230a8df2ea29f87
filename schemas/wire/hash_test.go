package wire

import (
	"fmt"
	"testing"
)

// Mix gives the published sequence of SplitMix64 from seed 0. The state grows by the golden gamma before each output, and
// Mix adds it.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		if got := Mix(uint64(i) * 0x9e3779b97f4a7c15); got != want {
			t.Errorf("output %d is %#016x, expected %#016x", i, got, want)
		}
	}
}

func TestHash(t *testing.T) {
	for _, c := range []struct {
		values []uint64
		want   uint64
	}{
		{nil, 0},
		{[]uint64{0}, 0xe220a8397b1dcdaf},
		{[]uint64{0, 0}, Mix(0xe220a8397b1dcdaf)},
		{[]uint64{1, 2, 3}, Mix(Mix(Mix(1)^2) ^ 3)},
	} {
		if got := Hash(c.values...); got != c.want {
			t.Errorf("Hash(%v) = %#x, expected %#x", c.values, got, c.want)
		}
	}
	// FORMAT.md has these values, to test other implementations.
	if got := fmt.Sprintf("%#x %#x", Hash(1, 2, 3), Hash(3, 2, 1)); got != "0xd0734750fde362b3 0xd62a7f6e291fef64" {
		t.Error(got)
	}
}
