package schemas

import (
	"fmt"
	"strconv"
)

// KindSample is the kind of a [Sample].
const KindSample Kind = "sample"

// Sample is raw rows of examples that the survey drew from one partition's span,
// as they were ingested. It reveals data, as examples do.
type Sample struct {
	Identity
	Width int
	Rows  []float32 // n × Width, by their draws; a missing value is NaN
	Draws []uint64  // n: each row's hash; the smallest of all partitions count
}

// Record encodes the sample.
func (s *Sample) Record() *Record[float32] {
	draws := make([]string, len(s.Draws))
	for i, d := range s.Draws {
		draws[i] = fmt.Sprintf("%016x", d)
	}
	return &Record[float32]{Identity: s.Identity, Tensors: Tensors[float32]{
		Matrix(FieldSample, len(s.Draws), s.Width, s.Rows), Words[float32](FieldDraws, draws),
	}}
}

// SampleOf decodes a sample. Errors are a *[ShapeError] or wrap ErrDamaged.
func SampleOf(r *Record[float32]) (*Sample, error) {
	rows, _ := r.Tensors.Find(FieldSample)
	draws, _ := r.Tensors.Find(FieldDraws)
	if len(rows.Shape) != 2 || len(draws.Shape) != 1 || rows.Shape[0] != draws.Shape[0] {
		return nil, &ShapeError{Tensor: FieldSample, Got: rows.Shape, Want: []int{len(draws.Text), -1}}
	}
	s := &Sample{Identity: r.Identity, Width: rows.Shape[1], Rows: rows.Data, Draws: make([]uint64, len(draws.Text))}
	for i, text := range draws.Text {
		draw, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, r.damaged(err)
		}
		s.Draws[i] = draw
	}
	return s, nil
}

func sampleLayout() Layout {
	return Layout{
		Kind: KindSample, Topic: "statistics", Writer: "worker", Reader: "solver",
		Tensors: []Part{{FieldSample, "[n, d]: raw rows, a missing value as NaN"}, {FieldDraws, "text: each row's hash, 16 hexadecimal digits"}},
	}
}
