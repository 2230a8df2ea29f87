package sink

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Parts yields the first row and the end row (excluded) of each residuals message of the given number of rows, each
// with the given number of values.
func Parts(rows, values int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		size := schemas.MaxResidualsRows(values)
		for from := 0; from < rows && yield(from, min(from+size, rows)); from += size {
		}
	}
}

// Finished is the published result of a stage for n rows.
type Finished struct {
	Score, Residual kernel.Dense // n × k
	Votes           kernel.Dense // n × k: see [Vote]; without rows before a member is finished
}

// Values returns the number of values per row.
func (f *Finished) Values() int { return f.Score.Cols + f.Residual.Cols + f.Votes.Cols }

// Messages encodes the published result of a stage for the examples message at offset: one residuals message for each
// of [Parts]. attempt distinguishes the messages of different writers. mem is the allocator for Arrow memory, which is
// freed. Errors are those of encoding.
func Messages(id wire.Identity, attempt string, offset int64, f Finished, mem memory.Allocator) ([]wire.Message, error) {
	var messages []wire.Message
	for from, to := range Parts(f.Score.Rows, f.Values()) {
		r := schemas.Residuals{
			Identity: id, Attempt: attempt, Offset: offset, Row: from, Classes: f.Score.Cols,
			Score: f.Score.Slice(from, to).Data, Residual: f.Residual.Slice(from, to).Data,
		}
		if f.Votes.Rows > 0 {
			r.Votes = f.Votes.Slice(from, to).Data
		}
		m, err := r.Encode(mem)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// Digester computes the digest of the scores that a seal vouches for. The zero value is ready. It is not safe for concurrent
// use.
type Digester struct {
	sha    hash.Hash
	buffer []byte
}

// Add adds the scores of the next part in row order: the offset of its examples message, its first row, and its scores
// and then its votes, if it has any (row-major).
func (d *Digester) Add(offset int64, row int, score, votes []float32) {
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer[:0], uint64(offset))
	d.buffer = binary.LittleEndian.AppendUint64(d.buffer, uint64(row))
	d.buffer = append(append(d.buffer, arrow.GetBytes(score)...), arrow.GetBytes(votes)...)
	d.begun().Write(d.buffer)
}

// Digest returns the digest of all scores added so far.
func (d *Digester) Digest() wire.Digest { return wire.Digest(hex.EncodeToString(d.begun().Sum(nil))) }

// begun returns the hash of the scores added so far.
func (d *Digester) begun() hash.Hash {
	if d.sha == nil {
		d.sha = sha256.New()
	}
	return d.sha
}
