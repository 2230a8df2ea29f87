package statistics

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSample is the kind of a [Sample] record.
const KindSample wire.Kind = "sample"

// Sample has raw rows that the survey drew from one partition's span. It is as confidential as the examples.
type Sample struct {
	wire.Identity
	Width int       // features of a row
	Rows  []float32 // n × Width, in the order of Draws; a missing value is NaN
	Draws []uint64  // n: hash of each row; the run's sample is the rows with the smallest hashes over all partitions
}

// Record makes the record of the sample.
func (s *Sample) Record() *wire.Record[float32] {
	const digits = 16
	all, draws := make([]byte, 0, digits*len(s.Draws)), make([]string, len(s.Draws))
	for _, d := range s.Draws {
		all = hex.AppendEncode(all, binary.BigEndian.AppendUint64(nil, d))
	}
	for i, text := 0, string(all); i < len(draws); i++ {
		draws[i] = text[digits*i:][:digits]
	}
	return &wire.Record[float32]{Identity: s.Identity, Tensors: wire.Tensors[float32]{
		wire.Matrix(FieldSample, len(s.Draws), s.Width, s.Rows), wire.Words[float32](FieldDraws, draws),
	}}
}

// SampleOf is the inverse of [Sample.Record]. An error is a *[wire.ShapeError] or wraps [wire.ErrDamaged].
func SampleOf(r *wire.Record[float32]) (*Sample, error) {
	rows, _ := r.Tensors.Find(FieldSample)
	draws, _ := r.Tensors.Find(FieldDraws)
	if len(rows.Shape) != 2 || len(draws.Shape) != 1 || rows.Shape[0] != draws.Shape[0] || len(rows.Text) > 0 ||
		len(draws.Data) > 0 {
		return nil, &wire.ShapeError{Tensor: FieldSample, Got: rows.Shape, Want: []int{len(draws.Text), -1}}
	}
	s := &Sample{Identity: r.Identity, Width: rows.Shape[1], Rows: rows.Data, Draws: make([]uint64, len(draws.Text))}
	for i, text := range draws.Text {
		draw, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return nil, r.Damaged(err)
		}
		s.Draws[i] = draw
	}
	return s, nil
}
