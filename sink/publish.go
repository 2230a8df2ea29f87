package sink

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"math"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Parts are the first and the last row, not included, of each part into which
// the residuals of so many rows of so many classes are cut.
func Parts(rows, classes int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		most := schemas.MaxResidualRows(classes)
		for from := 0; from < rows && yield(from, min(from+most, rows)); from += most {
		}
	}
}

// Messages makes the residuals messages of one examples message: as many parts
// as its classes need.
func Messages(id schemas.Identity, attempt string, offset int64, score, residual kernel.Dense, mem memory.Allocator) ([]schemas.Message, error) {
	var messages []schemas.Message
	for from, to := range Parts(score.Rows, score.Cols) {
		r := schemas.Residuals{
			Identity: id, Attempt: attempt, Offset: offset, Row: from, Classes: score.Cols,
			Score: score.Slice(from, to).Data, Residual: residual.Slice(from, to).Data,
		}
		m, err := r.Encode(mem)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// Digester is over the scores that a seal vouches for, in row order.
type Digester struct {
	sha    hash.Hash
	buffer []byte
}

// Add takes the scores of the next part: its examples message, its first row.
func (d *Digester) Add(offset int64, row int, score []float32) {
	if d.sha == nil {
		d.sha = sha256.New()
	}
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer[:0], uint64(offset))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(row))
	for _, v := range score {
		d.buffer = binary.LittleEndian.AppendUint32(d.buffer, math.Float32bits(v))
	}
	d.sha.Write(d.buffer)
}

// Digest of all that was added.
func (d *Digester) Digest() schemas.Digest {
	if d.sha == nil {
		d.sha = sha256.New()
	}
	return schemas.Digest(hex.EncodeToString(d.sha.Sum(nil)))
}
