package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// The header's length, the header and the values are where the format says, and nothing else is in the file.
func TestSafetensorsLayout(t *testing.T) {
	for _, r := range everyRecipe(t) {
		m := r.model(t)
		file := write(t, "safetensors", m)
		length := binary.LittleEndian.Uint64([]byte(file[:8]))
		header, values := file[8:8+length], file[8+length:]
		if length%8 != 0 || header[0] != '{' {
			t.Fatalf("%v: a header of %d bytes that begins with %q", r, length, header[0])
		}
		var parts map[string]json.RawMessage
		arrowtest.NoError(t, json.Unmarshal([]byte(header), &parts))
		end := 0
		for _, want := range m.Tensors() {
			part, ok := parts[want.Name]
			if want.Text != nil {
				if ok {
					t.Errorf("%v: the texts %s are a tensor", r, want.Name)
				}
				continue
			}
			delete(parts, want.Name)
			var got safetensor
			if err := json.Unmarshal(part, &got); err != nil {
				t.Fatalf("%v: %s: %v", r, want.Name, err)
			}
			if got.Type != "F32" || !reflect.DeepEqual(got.Shape, want.Shape) || got.Offsets != [2]int{end, end + 4*len(want.Data)} {
				t.Fatalf("%v: %s is %+v, expected %v from byte %d", r, want.Name, got, want.Shape, end)
			}
			for i, v := range want.Data {
				if bits := binary.LittleEndian.Uint32([]byte(values[end+4*i:])); math.Float32frombits(bits) != v {
					t.Fatalf("%v: value %d of %s is %v, expected %v", r, i, want.Name, math.Float32frombits(bits), v)
				}
			}
			end += 4 * len(want.Data)
		}
		if end != len(values) {
			t.Errorf("%v: %d bytes of values, expected %d", r, len(values), end)
		}
		var about struct{ Manifest, Labels, Columns string }
		if err := json.Unmarshal(parts["__metadata__"], &about); err != nil || len(parts) != 1 {
			t.Fatalf("%v: %d parts that are no tensors, %v", r, len(parts), err)
		}
		var manifest schemas.Manifest
		if err := json.Unmarshal([]byte(about.Manifest), &manifest); err != nil || !reflect.DeepEqual(&manifest, m.Manifest) {
			t.Errorf("%v: manifest %+v, %v", r, manifest, err)
		}
		var named examples.ClassLabels
		if err := json.Unmarshal([]byte(about.Labels), &named); err != nil || !slices.Equal(named, r.labels) ||
			(about.Labels[1] == '"') == (m.LabelType() == examples.WholeLabels) {
			t.Errorf("%v: labels %q, %v", r, named, err)
		}
		var columns examples.Columns
		if err := json.Unmarshal([]byte(about.Columns), &columns); err != nil || !reflect.DeepEqual(columns, m.Columns()) {
			t.Errorf("%v: columns %v, %v", r, columns, err)
		}
	}
}

// An error of the writer is returned, from every format and wherever it comes.
func TestWriterFails(t *testing.T) {
	full := errors.New("full")
	m := everyRecipe(t)[0].model(t)
	for _, format := range Exports() {
		whole := len(write(t, format.Name, m))
		for _, room := range []int{0, 5, 8, whole / 2, whole - 1} {
			if err := format.Write(&disk{room, full}, m); !errors.Is(err, full) {
				t.Errorf("%s with room for %d bytes: %v", format.Name, room, err)
			}
		}
	}
}

// disk is a writer that fails when it has no room.
type disk struct {
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	if len(b) > d.room {
		return 0, d.err
	}
	d.room -= len(b)
	return len(b), nil
}
