package schemas

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func model() (*Manifest, wire.Tensors[float32]) {
	p := plan()
	return &Manifest{
			Name: p.Name, Version: 2, Run: p.Run(), Plan: p, Labels: []string{"a", "<b>"}, Columns: examples.Columns{{Name: "size"},
				{Name: "colour", Categories: []string{"red", "<b>"}}}, Rows: map[string]int64{"train": 100, "test": 30},
			Prepare: "prepare", Blocks: []BlockDigest{{Visit: 3, Digest: "first"}, {Stage: 1, Visit: 2, Passes: 2, Ridge: 0.25, Digest: "second"}},
			Metrics: map[string]float64{"test_error": 1.5, "train_error": 0.25}, WeightsDigest: "weights",
		}, wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](65)), wire.Words[float32](statistics.TensorLabels,
				[]string{"a", "<b>"}), wire.Matrix(statistics.TensorW, 5000, 2, arrowtest.Numbered[float32](10_000)),
		}
}

func TestModelRoundTrip(t *testing.T) {
	mem := arrowtest.Allocator(t)
	manifest, tensors := model()
	var file bytes.Buffer
	n := arrowtest.Must(WriteModel(&file, manifest, tensors, mem))(t)
	if n != int64(file.Len()) {
		t.Errorf("%d bytes are written, WriteModel returns %d", file.Len(), n)
	}
	m, w, err := ReadModel(iotest.HalfReader(&file), mem)
	if err != nil || !reflect.DeepEqual(m, manifest) || !reflect.DeepEqual(w, tensors) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestDamagedModels(t *testing.T) {
	mem := arrowtest.Allocator(t)
	manifest, tensors := model()
	var file bytes.Buffer
	arrowtest.Must(WriteModel(&file, manifest, tensors, mem))(t)
	whole := file.Bytes()
	// The last 8 bytes mark the end of the stream. Arrow does not need them.
	for n := 0; n < len(whole)-8; n += 97 {
		if _, _, err := ReadModel(bytes.NewReader(whole[:n]), mem); !errors.Is(err, wire.ErrDamaged) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for at := range whole[:min(len(whole), 4000)] {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x55
		if _, _, err := ReadModel(bytes.NewReader(bad), mem); err != nil && !errors.Is(err, wire.ErrDamaged) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
	record := arrowtest.Must((&wire.Record[float32]{Tensors: tensors[:1]}).Encode(mem))(t)[0].Value
	if _, _, err := ReadModel(bytes.NewReader(record), mem); err == nil ||
		err.Error() != "damaged or foreign bytes: an Arrow stream, but not a model" {
		t.Error(err)
	}
	file.Reset()
	arrowtest.Must(WriteModel(&file, &Manifest{}, nil, mem))(t)
	if _, _, err := ReadModel(&file, mem); err == nil ||
		err.Error() != `damaged or foreign bytes: decode manifest "stagewise.manifest": the manifest has no plan` {
		t.Error(err)
	}
	if _, _, err := ReadModel(iotest.ErrReader(io.ErrClosedPipe), mem); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, wire.ErrDamaged) {
		t.Error(err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 3, io.ErrShortWrite }

func TestModelThatCannotBeWritten(t *testing.T) {
	manifest, tensors := model()
	n, err := WriteModel(fullDisk{}, manifest, tensors, arrowtest.Allocator(t))
	if n != 3 || !errors.Is(err, io.ErrShortWrite) {
		t.Error(n, err)
	}
}
