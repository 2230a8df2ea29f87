package visit

import "github.com/stagewise/stagewise/pipeline/worker/partition"

// gramSample selects whole messages with about want of total training rows. It spreads them evenly along each partition,
// with a different start in each partition.
type gramSample struct{ Want, Total int64 }

// newGramSample returns a sample with about want of total training rows.
func newGramSample(want, total int64) *gramSample {
	for total >= 1<<30 { // products with ordinals must fit an int64; only the ratio matters
		want, total = max(want/2, 1), total/2
	}
	return &gramSample{want, total}
}

// samples reports whether a message of a segment is part of the Gram matrix, given its ordinal among the accepted messages of
// the segment.
func (v *Visit) samples(s *partition.Segment, message int) bool {
	return v.Sample == nil || v.Sample.has(s.Part.Ordinal, int64(s.Index)*v.Plan.Segment+int64(message))
}

// has reports whether a message is in the sample. partition is the ordinal of its partition in the plan, message its
// ordinal in the partition. The first message of the plan is in every sample.
//
// Up to any message of a partition, the sample has the fraction want/total of the messages, rounded. The rounding starts
// at a phase. The phase of partition 0 selects its first message. The golden section spreads the phases of the others,
// however many there are.
func (g *gramSample) has(partition int, message int64) bool {
	step := int64(float64(g.Total) * 0.6180339887498949)
	phase := (g.Total - g.Want + int64(partition)%g.Total*step) % g.Total
	return ((message+1)*g.Want+phase)/g.Total > (message*g.Want+phase)/g.Total
}
