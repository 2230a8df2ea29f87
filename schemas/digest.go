package schemas

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/endian"
)

// Digest is a sha256 in lower-case hexadecimal. The zero value names nothing.
type Digest string

// Short is what people are shown: the first twelve digits.
func (d Digest) Short() string { return string(d[:min(12, len(d))]) }

// DigestOf is the digest of some bytes.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(hex.EncodeToString(sum[:]))
}

// DigestJSON is the digest of a value's JSON. encoding/json writes struct
// fields in their order and map keys sorted, so equal values have equal
// digests; a nil slice is not equal to an empty one. It panics on NaN.
func DigestJSON(value any) Digest {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for %T: %v", value, err))
	}
	return DigestOf(content)
}

// hasher writes numbers and text into a sha256, little-endian, each text
// preceded by its length so that no two sequences run into the same bytes. Who
// writes numbers by writeNumbers writes before how many they are.
type hasher struct {
	hash.Hash
	buffer []byte
}

func newHasher() *hasher { return &hasher{Hash: sha256.New()} }

func (h *hasher) digest() Digest { return Digest(hex.EncodeToString(h.Sum(nil))) }

func (h *hasher) int(values ...int) {
	for _, v := range values {
		h.buffer = binary.LittleEndian.AppendUint64(h.buffer[:0], uint64(v))
		h.Write(h.buffer)
	}
}

func (h *hasher) text(values ...string) {
	for _, v := range values {
		h.int(len(v))
		h.Write([]byte(v))
	}
}

func writeNumbers[T Number](h *hasher, values []T) {
	if endian.IsBigEndian {
		writeSwapped(h, values)
		return
	}
	switch values := any(values).(type) {
	case []float32:
		h.Write(arrow.Float32Traits.CastToBytes(values))
	case []float64:
		h.Write(arrow.Float64Traits.CastToBytes(values))
	}
}

// writeSwapped writes the numbers where memory has them the other way round.
func writeSwapped[T Number](h *hasher, values []T) {
	for _, v := range values {
		switch v := any(v).(type) {
		case float32:
			h.buffer = binary.LittleEndian.AppendUint32(h.buffer[:0], math.Float32bits(v))
		case float64:
			h.buffer = binary.LittleEndian.AppendUint64(h.buffer[:0], math.Float64bits(v))
		}
		h.Write(h.buffer)
	}
}
