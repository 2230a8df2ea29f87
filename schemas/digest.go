package schemas

import (
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
	hash.Hash
	buffer []byte // what is written next: a record is mostly small writes
}

// hasherBuffer is when the buffer is written.
const hasherBuffer = 2048

var hashers = sync.Pool{New: func() any { return &hasher{Hash: sha256.New(), buffer: make([]byte, 0, hasherBuffer)} }}

func newHasher() *hasher { return hashers.Get().(*hasher) }

// digest of what was written; the hasher is not to be used again.
func (h *hasher) digest() Digest {
	h.flush()
	h.buffer = h.Sum(h.buffer)
	digest := Digest(hex.EncodeToString(h.buffer))
	h.Reset()
	h.buffer = h.buffer[:0]
	hashers.Put(h)
	return digest
}

func (h *hasher) flush() {
	h.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

// room flushes the buffer if it has none for so many bytes.
func (h *hasher) room(bytes int) {
	if len(h.buffer)+bytes > hasherBuffer {
		h.flush()
	}
}

func (h *hasher) int(values ...int) {
	for _, v := range values {
		h.room(8)
		h.buffer = binary.LittleEndian.AppendUint64(h.buffer, uint64(v))
	}
}

func (h *hasher) text(values ...string) {
	for _, v := range values {
		h.int(len(v))
		h.room(len(v))
		h.buffer = append(h.buffer, v...)
	}
}

func (h *hasher) bytes(values []byte) {
	if len(values) >= hasherBuffer { // not worth a copy
		h.flush()
		h.Write(values)
		return
	}
	h.room(len(values))
	h.buffer = append(h.buffer, values...)
}

func writeNumbers[T Number](h *hasher, values []T) {
	if endian.IsBigEndian {
		writeSwapped(h, values)
		return
	}
	switch values := any(values).(type) {
	case []float32:
		h.bytes(arrow.Float32Traits.CastToBytes(values))
	case []float64:
		h.bytes(arrow.Float64Traits.CastToBytes(values))
	}
}

// writeSwapped writes the numbers where memory has them the other way round.
func writeSwapped[T Number](h *hasher, values []T) {
	for _, v := range values {
		h.room(8)
		switch v := any(v).(type) {
		case float32:
			h.buffer = binary.LittleEndian.AppendUint32(h.buffer, math.Float32bits(v))
		case float64:
			h.buffer = binary.LittleEndian.AppendUint64(h.buffer, math.Float64bits(v))
		}
	}
}
