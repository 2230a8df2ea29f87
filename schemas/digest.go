package schemas

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"sync"

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
	*bufio.Writer // a record is mostly small writes
	sum           hash.Hash
}

var hashers = sync.Pool{New: func() any {
	sum := sha256.New()
	return &hasher{bufio.NewWriterSize(sum, 2048), sum}
}}

func newHasher() *hasher { return hashers.Get().(*hasher) }

// digest of what was written; the hasher is not to be used again.
func (h *hasher) digest() Digest {
	h.Flush() // a hash takes whatever is written
	digest := Digest(hex.EncodeToString(h.sum.Sum(nil)))
	h.sum.Reset()
	hashers.Put(h)
	return digest
}

func (h *hasher) int(values ...int) {
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint64(h.AvailableBuffer(), uint64(v)))
	}
}

func (h *hasher) text(values ...string) {
	for _, v := range values {
		h.int(len(v))
		h.WriteString(v)
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
			h.Write(binary.LittleEndian.AppendUint32(h.AvailableBuffer(), math.Float32bits(v)))
		case float64:
			h.Write(binary.LittleEndian.AppendUint64(h.AvailableBuffer(), math.Float64bits(v)))
		}
	}
}
