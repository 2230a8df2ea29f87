package statistics

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSeal is the kind of a [Seal] record.
const KindSeal wire.Kind = "seal"

// Seal states that all residuals of a share after a stage are published, with their position and digest in each partition.
// Parent is the digest of the stage's final weights.
type Seal struct {
	Visit          // of the examples of these rows: its sums are final losses and quality of the stage
	Attempt string `header:"attempt"` // of the valid residuals messages
	// Parts are the residuals of each partition of the share, in order.
	Parts []SealedPart `tensor:"sealed,texts"`
}

// SealedPart is the residuals of one partition.
type SealedPart struct {
	Partition int         `json:"partition"`
	From      int64       `json:"from"`   // first offset on the residuals topic
	To        int64       `json:"to"`     // offset after the last
	Rows      int64       `json:"rows"`   // rows of these messages
	Scores    wire.Digest `json:"scores"` // of the scores, in row order
}

// Part returns the residuals of a partition; none if the share does not have it.
func (s *Seal) Part(partition int) SealedPart {
	for _, part := range s.Parts {
		if part.Partition == partition {
			return part
		}
	}
	return SealedPart{}
}
