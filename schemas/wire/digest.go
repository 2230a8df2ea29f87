package wire

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
)

// Digest is a SHA-256 in lower-case hexadecimal. The zero value is no digest.
type Digest string

// Short returns the first twelve digits, which user interfaces show.
func (d Digest) Short() string { return string(d[:min(12, len(d))]) }

// DigestOf returns the digest of bytes.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

// DigestJSON returns the digest of a value's JSON. encoding/json writes struct fields in their order and map keys sorted,
// so equal values have equal digests. A nil slice and an empty one differ. It panics if the value has no JSON, such as NaN.
func DigestJSON(value any) Digest {
	return DigestOf(JSON(value))
}

// Fingerprint returns the header `schema`, which helps people distinguish schemas.
func Fingerprint(schema *arrow.Schema) string { return DigestOf([]byte(schema.String())).Short() }

// hasher writes numbers and texts into a SHA-256, little-endian. Each text is preceded by its length, so that different
// sequences never have the same bytes. Write the count before calling writeNumbers.
type hasher struct {
	*bufio.Writer // most writes of a record are small
	sum           hash.Hash
}

var hashers = sync.Pool{New: func() any {
	sum := sha256.New()
	return &hasher{bufio.NewWriterSize(sum, 2048), sum}
}}

func newHasher() *hasher { return hashers.Get().(*hasher) }

// digest returns the digest of what was written. The hasher must not be used again.
func (h *hasher) digest() Digest {
	h.Flush() // a hash returns no error
	digest := Digest(hex.EncodeToString(h.sum.Sum(nil)))
	h.sum.Reset()
	hashers.Put(h)
	return digest
}

// int writes each value as 8 bytes.
func (h *hasher) int(values ...int) {
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint64(h.AvailableBuffer(), uint64(v)))
	}
}

// text writes each text after its length.
func (h *hasher) text(values ...string) {
	for _, v := range values {
		h.int(len(v))
		h.WriteString(v)
	}
}

// writeNumbers writes the bytes of the values, but not their count. All supported machines are little-endian.
func writeNumbers[T Number](h *hasher, values []T) {
	switch values := any(values).(type) {
	case []float32:
		h.Write(arrow.Float32Traits.CastToBytes(values))
	case []float64:
		h.Write(arrow.Float64Traits.CastToBytes(values))
	}
}

// Mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014) with Vigna's constants. It is a bijection of 64 bits, and
// every bit of its argument changes about half of the bits of its result. All hashes and draws of stagewise are based on
// it, so that other languages can reproduce them in ten lines.
func Mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash folds values into one: h = 0, then h = Mix(h ^ v) for each v.
func Hash(values ...uint64) uint64 {
	h := uint64(0)
	for _, v := range values {
		h = Mix(h ^ v)
	}
	return h
}
