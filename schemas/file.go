package schemas

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// manifestKey is the key of the manifest's JSON in the schema's metadata of a model file.
const manifestKey = "stagewise.manifest"

// FileTensor returns the name that a tensor of a stage's weights has in a model file. pass is 0 unless the link is learnt.
func FileTensor(stage, pass int, name string) string {
	return fmt.Sprintf("%d/%d/%s", stage, pass, name)
}

// WeightsDigest returns the digest that a manifest has of a version: over the tensors of its model file in their order, for
// each its values and then its texts, with line breaks between them.
func WeightsDigest(tensors Tensors[float32]) Digest {
	h := newHasher()
	for _, t := range tensors {
		writeNumbers(h, t.Data)
		h.WriteString(strings.Join(t.Text, "\n"))
	}
	return h.digest()
}

// WriteModel writes a finished version as a file and returns the number of bytes written. The file is an Arrow IPC stream
// with the schema of a weights record and the manifest in the schema's metadata.
func WriteModel(w io.Writer, manifest *Manifest, tensors Tensors[float32], mem memory.Allocator) (int64, error) {
	content, err := json.Marshal(manifest)
	if err != nil {
		return 0, fmt.Errorf("encode manifest: %w", err)
	}
	metadata := arrow.NewMetadata([]string{manifestKey}, []string{string(content)})
	schema := arrow.NewSchema(formatOf[float32]().schema.Fields(), &metadata)
	var segments []segment[float32]
	for i := range tensors {
		segments = append(segments, tensors[i].segments()...)
	}
	value, err := encodeSegments(schema, segments, mem)
	if err != nil {
		return 0, fmt.Errorf("encode model: %w", err)
	}
	n, err := w.Write(value)
	if err != nil {
		return int64(n), fmt.Errorf("write model: %w", err)
	}
	return int64(n), nil
}

// ReadModel reads a file that [WriteModel] wrote. An error about its bytes wraps [ErrDamaged]. ReadModel does not compare
// the tensors with the manifest's WeightsDigest; package model does.
func ReadModel(r io.Reader, mem memory.Allocator) (*Manifest, Tensors[float32], error) {
	value, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read model: %w", err)
	}
	record, err := stream.Decode(value, mem, nil)
	if err != nil {
		return nil, nil, err
	}
	defer record.Release()
	metadata := record.Schema().Metadata()
	content, ok := metadata.GetValue(manifestKey)
	if !ok {
		return nil, nil, fmt.Errorf("%w: an Arrow stream, but not a model", ErrDamaged)
	}
	manifest, err := DecodeJSON[Manifest](Message{Key: manifestKey, Headers: []Header{{"kind", string(KindManifest)}}, Value: []byte(content)})
	if err != nil {
		return nil, nil, err
	}
	a := newAssembly[float32](len(value))
	if err := a.add(record); err != nil {
		return nil, nil, err
	}
	if err := a.tensors.complete(); err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return manifest, a.tensors, nil
}
