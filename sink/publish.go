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

// Parts yields the first row and the end row (excluded) of each message that the residuals of rows are cut into, which
// have so many values each.
func Parts(rows, values int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		size := schemas.MaxResidualsRows(values)
		for from := 0; from < rows && yield(from, min(from+size, rows)); from += size {
		}
	}
}

// Finished is what is published of n rows after a stage.
type Finished struct {
	Score, Residual kernel.Dense // n × k
	Votes           kernel.Dense // n × k: see [Vote]; without rows before a member is finished
}

// Values returns how many values a row has.
func (f *Finished) Values() int { return f.Score.Cols + f.Residual.Cols + f.Votes.Cols }

// Messages encodes what is published after a stage of one examples message, which is at offset. It returns
// one residuals message for each of [Parts]. attempt tells the messages of different writers apart. mem is for what Arrow
// allocates, which is freed. An error is one of encoding.
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

// begun returns the hash of what was added.
func (d *Digester) begun() hash.Hash {
	if d.sha == nil {
		d.sha = sha256.New()
	}
	return d.sha
}
