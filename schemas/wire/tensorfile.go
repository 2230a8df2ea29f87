package wire

import (
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// TensorsDigest returns the digest of tensors in a file: over the tensors in their order, for each its values and then
// its texts, with line breaks between them.
func TensorsDigest(tensors Tensors[float32]) Digest {
	h := newHasher()
	for _, t := range tensors {
		writeNumbers(h, t.Data)
		h.WriteString(strings.Join(t.Text, "\n"))
	}
	return h.digest()
}

// WriteTensors writes tensors as an Arrow IPC stream with the schema of a record, and one entry of metadata. It returns
// the number of bytes written.
func WriteTensors(w io.Writer, key, metadata string, tensors Tensors[float32], mem memory.Allocator) (int64, error) {
	of := arrow.NewMetadata([]string{key}, []string{metadata})
	var segments []segment[float32]
	for i := range tensors {
		segments = append(segments, tensors[i].segments()...)
	}
	value, err := encodeSegments(segments, &of, mem)
	if err != nil {
		return 0, fmt.Errorf("encode tensors: %w", err)
	}
	n, err := w.Write(value)
	return int64(n), err
}

// ReadTensors is the inverse of [WriteTensors]. ok is false if the stream has no metadata with that key. An error about
// the bytes wraps [ErrDamaged].
func ReadTensors(r io.Reader, key string, mem memory.Allocator) (metadata string, tensors Tensors[float32], ok bool, err error) {
	value, err := io.ReadAll(r)
	if err != nil {
		return "", nil, false, err
	}
	record, err := stream.Decode(value, mem, nil)
	if err != nil {
		return "", nil, false, err
	}
	defer record.Release()
	of := record.Schema().Metadata()
	if metadata, ok = of.GetValue(key); !ok {
		return "", nil, false, nil
	}
	a := newAssembly[float32](len(value))
	if err := a.add(record); err != nil {
		return "", nil, false, err
	}
	if err := a.tensors.Complete(); err != nil {
		return "", nil, false, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return metadata, a.tensors, true, nil
}
