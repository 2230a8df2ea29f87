package schemas

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// manifestKey is where the schema of a model's file has the manifest, as JSON.
const manifestKey = "stagewise.manifest"

// WriteModel writes a finished version to a file: an Arrow IPC stream like that
// of a weights record, with the manifest in the schema's metadata.
func WriteModel(w io.Writer, manifest *Manifest, tensors Tensors[float32], mem memory.Allocator) (int64, error) {
	content, err := json.Marshal(manifest)
	if err != nil {
		return 0, fmt.Errorf("encode manifest: %w", err)
	}
	metadata := arrow.NewMetadata([]string{manifestKey}, []string{string(content)})
	schema := arrow.NewSchema(recordSchema[float32]().Fields(), &metadata)
	var segments []segment[float32]
	for i := range tensors {
		segments = append(segments, tensors[i].segments()...)
	}
	value, err := encodeSegments(schema, segments, mem)
	if err != nil {
		return 0, fmt.Errorf("encode model: %w", err)
	}
	n, err := w.Write(value)
	return int64(n), err
}

// ReadModel reads what WriteModel wrote. Errors about its bytes wrap
// ErrDamaged.
func ReadModel(r io.Reader, mem memory.Allocator) (*Manifest, Tensors[float32], error) {
	value, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	record, err := decode(value, mem)
	if err != nil {
		return nil, nil, err
	}
	metadata := record.Schema().Metadata()
	record.Release()
	content, ok := metadata.GetValue(manifestKey)
	if !ok {
		return nil, nil, fmt.Errorf("%w: an Arrow stream, but not a model", ErrDamaged)
	}
	manifest := &Manifest{}
	if err := json.Unmarshal([]byte(content), manifest); err != nil {
		return nil, nil, fmt.Errorf("%w: manifest: %v", ErrDamaged, err)
	}
	tensors, err := appendSegments(Tensors[float32](nil), value, mem)
	if err != nil {
		return nil, nil, err
	}
	return manifest, tensors, tensors.complete()
}
