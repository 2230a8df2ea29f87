package wire

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// Number is the type of a tensor's values: float32 for weights, sampled rows and the Gram matrices of blocks, float64
// for other sums.
type Number interface{ float32 | float64 }

// Tensor is a named array of numbers, or a named list of texts such as labels.
type Tensor[T Number] struct {
	Name  string
	Shape []int    // the product is the number of values, or of texts
	Data  []T      // row-major; nil for texts
	Text  []string // nil for numbers
}

// Matrix makes a rows × cols tensor. It does not copy data. It panics if data has another length.
func Matrix[T Number](name string, rows, cols int, data []T) Tensor[T] {
	if rows*cols != len(data) {
		panic(fmt.Sprintf("schemas: tensor %s of %d × %d from %d values", name, rows, cols, len(data)))
	}
	return Tensor[T]{Name: name, Shape: []int{rows, cols}, Data: data}
}

// Vector makes a tensor of one dimension. It does not copy data.
func Vector[T Number](name string, data []T) Tensor[T] {
	return Tensor[T]{Name: name, Shape: []int{len(data)}, Data: data}
}

// Words makes a tensor of texts. It does not copy text.
func Words[T Number](name string, text []string) Tensor[T] {
	return Tensor[T]{Name: name, Shape: []int{len(text)}, Text: text}
}

// Tensors is the content of a record. Its order is part of the record's digest.
type Tensors[T Number] []Tensor[T]

// Find returns the first tensor of that name, or false if there is none.
func (t Tensors[T]) Find(name string) (Tensor[T], bool) {
	for _, tensor := range t {
		if tensor.Name == name {
			return tensor, true
		}
	}
	return Tensor[T]{}, false
}

// Same reports whether two lists have the same tensors, bit by bit. Unlike two digests, it reads no value of lists that differ in size.
func (t Tensors[T]) Same(other Tensors[T]) bool {
	sized := func(a, b Tensor[T]) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) && len(a.Data) == len(b.Data)
	}
	return slices.EqualFunc(t, other, sized) && slices.EqualFunc(t, other, func(a, b Tensor[T]) bool {
		return bytes.Equal(arrow.GetBytes(a.Data), arrow.GetBytes(b.Data)) && slices.Equal(a.Text, b.Text)
	})
}

// Shaped returns the data of the tensor of that name, or a *[ShapeError] if the tensor is absent or has another shape. -1 is any length.
func (t Tensors[T]) Shaped(name string, shape ...int) ([]T, error) {
	tensor, ok := t.Find(name)
	if !ok {
		return nil, &ShapeError{Tensor: name, Want: shape}
	}
	fits := func(got, want int) bool { return got == want || want < 0 }
	if !slices.EqualFunc(tensor.Shape, shape, fits) || len(tensor.Text) > 0 { // text tensors have no numbers, regardless of their length
		return nil, &ShapeError{name, tensor.Shape, shape}
	}
	return tensor.Data, nil
}

// Optional is [Tensors.Shaped] for a tensor that may be absent: it returns nil only then.
func (t Tensors[T]) Optional(name string, shape ...int) ([]T, error) {
	if _, ok := t.Find(name); !ok {
		return nil, nil
	}
	data, err := t.Shaped(name, shape...)
	if data == nil && err == nil {
		data = []T{}
	}
	return data, err
}

// ShapeError reports that a record lacks a tensor, or that the tensor has an unexpected shape.
type ShapeError struct {
	Tensor string // name
	Got    []int  // nil: absent
	Want   []int  // -1: any length
}

// Error implements error.
func (e *ShapeError) Error() string {
	if e.Got == nil {
		return fmt.Sprintf("tensor %q is absent, expected shape %v", e.Tensor, e.Want)
	}
	return fmt.Sprintf("tensor %q has shape %v, expected %v", e.Tensor, e.Got, e.Want)
}

// write writes the part of the tensors that a record's digest covers.
func (t Tensors[T]) write(h *hasher) {
	h.int(len(t))
	for _, tensor := range t {
		h.text(tensor.Name)
		h.int(len(tensor.Shape))
		h.int(tensor.Shape...)
		h.int(len(tensor.Data), len(tensor.Text))
		writeNumbers(h, tensor.Data)
		h.text(tensor.Text...)
	}
}

// Finite returns v, or the largest number if v has overflowed: JSON has no infinities and no NaN.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}

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

func newHasher() *hasher {
	sum := sha256.New()
	return &hasher{bufio.NewWriterSize(sum, 2048), sum}
}

// digest returns the digest of what was written.
func (h *hasher) digest() Digest {
	h.Flush() // a hash returns no error
	return Digest(hex.EncodeToString(h.sum.Sum(nil)))
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
