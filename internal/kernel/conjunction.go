package kernel

import "fmt"

// Conjoin writes the bitwise AND of rows of words into dst. A row begins at each offset and is as long as dst. Without
// offsets, all bits are set. Conjoin panics if a row extends past the end of words.
func Conjoin(dst, words []uint64, offsets []int) {
	for _, from := range offsets {
		if from < 0 || from+len(dst) > len(words) {
			panic(fmt.Sprintf("kernel: Conjoin: a row of %d words at %d of %d", len(dst), from, len(words)))
		}
	}
	at := 0
	for ; at+8 <= len(dst); at += 8 {
		conjoin8((*[8]uint64)(dst[at:]), words[min(at, len(words)):], offsets)
	}
	for ; at < len(dst); at++ {
		all := ^uint64(0)
		for _, from := range offsets {
			all &= words[from+at]
		}
		dst[at] = all
	}
}

// conjoin8 writes eight words of the conjunction. It is a separate function so that they stay in registers.
//
//go:noinline
func conjoin8(dst *[8]uint64, words []uint64, offsets []int) {
	a, b, c, d := ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
	e, f, g, h := ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
	for _, from := range offsets {
		w := (*[8]uint64)(words[from:])
		a &= w[0]
		b &= w[1]
		c &= w[2]
		d &= w[3]
		e &= w[4]
		f &= w[5]
		g &= w[6]
		h &= w[7]
	}
	dst[0], dst[1], dst[2], dst[3], dst[4], dst[5], dst[6], dst[7] = a, b, c, d, e, f, g, h
}
