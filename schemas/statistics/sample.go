package statistics

import (
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSample is the kind of a [Sample] record.
const KindSample wire.Kind = "sample"

// Sample has raw rows that the survey drew from a share. It is as confidential as the examples.
type Sample struct {
	wire.Identity
	Width int       // features of a row
	Rows  []float32 // n × Width, in the order of Draws; a missing value is NaN
	Draws []uint64  // n: hash of each row; the run's sample is the rows with the smallest hashes over all partitions
}

// sampleRecord is the record of a sample.
type sampleRecord[T wire.Number] struct {
	wire.Identity
	Rows  wire.Tensor[T] `tensor:"sample"`
	Draws []string       `tensor:"draws"` // 16 hexadecimal digits each
}

// Record makes the record of the sample.
func (s *Sample) Record() *wire.Record[float32] {
	draws := make([]string, len(s.Draws))
	for i, d := range s.Draws {
		draws[i] = fmt.Sprintf("%016x", d)
	}
	return wire.RecordOf[float32](&sampleRecord[float32]{s.Identity, wire.Matrix(FieldSample, len(s.Draws), s.Width, s.Rows), draws})
}

// SampleOf is the inverse of [Sample.Record], given the widened record. An error wraps [wire.ErrDamaged].
func SampleOf(r *wire.Record[float64]) (*Sample, error) {
	of, err := wire.Read[sampleRecord[float64]](r)
	if err != nil {
		return nil, err
	}
	if len(of.Rows.Shape) != 2 || len(of.Draws) != of.Rows.Shape[0] || len(of.Rows.Text) > 0 {
		return nil, r.Damaged(&wire.ShapeError{Tensor: FieldSample, Got: of.Rows.Shape, Want: []int{len(of.Draws), -1}})
	}
	s := &Sample{Identity: r.Identity, Width: of.Rows.Shape[1], Rows: make([]float32, len(of.Rows.Data)), Draws: make([]uint64, len(of.Draws))}
	for i, v := range of.Rows.Data {
		s.Rows[i] = float32(v)
	}
	for i, text := range of.Draws {
		if s.Draws[i], err = strconv.ParseUint(text, 16, 64); err != nil {
			return nil, r.Damaged(err)
		}
	}
	return s, nil
}

// The rows of a [Sample] record of a stage are the training rows that its trees are grown on. Each has the codes of its c columns, its k
// residuals, and its weight.

// GrowthWidth returns the number of values of such a row.
func GrowthWidth(columns, classes int) int { return columns + classes + 1 }

// growthPurpose separates the hashes of such rows from others with the same seed.
const growthPurpose = 0x67726f77

// GrowthHash returns the hash of a row, given its position: the rows with the smallest hashes are the sample.
func GrowthHash(seed uint64, stage, partition int, offset int64, row int) uint64 {
	return wire.Hash(seed, growthPurpose, uint64(stage), uint64(partition), uint64(offset), uint64(row))
}
