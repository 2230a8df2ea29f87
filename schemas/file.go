package schemas

import (
	"encoding/json"
	"fmt"
	"io"
	"path"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// manifestKey is the key of the manifest's JSON in the schema metadata of a model file.
const manifestKey = "stagewise.manifest"

// FileTensor returns the name of a tensor of a stage's weights in a model file. pass is 0 unless the link is learnt.
func FileTensor(stage, pass int, name string) string {
	return fmt.Sprintf("%d/%d/%s", stage, pass, name)
}

// WeightsDigest returns the digest of a version in its manifest. It covers the tensors of the model file that predictions depend on: all
// except the covers of trees.
func WeightsDigest(tensors wire.Tensors[float32]) wire.Digest {
	var digested wire.Tensors[float32]
	for _, t := range tensors {
		if path.Base(t.Name) != statistics.TensorTreeCovers {
			digested = append(digested, t)
		}
	}
	return wire.TensorsDigest(digested)
}

// WriteModel writes a finished version as a file and returns the number of bytes written. The file is an Arrow IPC stream
// with the schema of a weights record and the manifest in the schema metadata.
func WriteModel(w io.Writer, manifest *Manifest, tensors wire.Tensors[float32], mem memory.Allocator) (int64, error) {
	content, err := json.Marshal(manifest)
	if err != nil {
		return 0, fmt.Errorf("encode manifest: %w", err)
	}
	n, err := wire.WriteTensors(w, manifestKey, string(content), tensors, mem)
	if err != nil {
		return n, fmt.Errorf("write model: %w", err)
	}
	return n, nil
}

// ReadModel reads a file that [WriteModel] wrote. An error about its bytes wraps [wire.ErrDamaged]. ReadModel does not compare
// the tensors with the manifest's WeightsDigest; package model does.
func ReadModel(r io.Reader, mem memory.Allocator) (*Manifest, wire.Tensors[float32], error) {
	content, tensors, ok, err := wire.ReadTensors(r, manifestKey, mem)
	if err != nil {
		return nil, nil, fmt.Errorf("read model: %w", err)
	}
	if !ok {
		return nil, nil, fmt.Errorf("%w: an Arrow stream, but not a model", wire.ErrDamaged)
	}
	manifest, err := DecodeJSON[Manifest](wire.Message{Key: manifestKey, Value: []byte(content),
		Headers: []wire.Header{{Key: "kind", Value: string(KindManifest)}}})
	if err != nil {
		return nil, nil, err
	}
	return manifest, tensors, nil
}
