package visit

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// fitSparse computes the sums of a gradient over batches of sparse rows, and in the first visit to a stage the substitute
// of the Gram matrix. Sums are in double precision from the first row on: the rows of a tile have few columns in common.
func (p *Processor) fitSparse(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, classes, columns := &accumulate.Sum{}, p.visit.Of.Classes, p.visit.Of.Features.Size()
	values := 0
	p.blocks = p.blocks[:0]
	for _, b := range batches {
		p.blocks = append(p.blocks, p.visit.Of.Features.ExpandSparse(b.Sparse))
		values += len(b.Sparse.Values)
	}
	inBlock := p.visit.blocks != nil && p.visit.blocks.block != nil
	few := values < columns && !inBlock
	if few {
		p.occurring.Begin(p.blocks)
		sum, columns = p.occurring.Sum(), p.occurring.Width()
	}
	if inBlock {
		p.gram.Begin(p.visit.blocks.size)
	}
	for i, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		block := p.blocks[i]
		p.countOverflowed(sum, b.Overflowed)
		p.score.Reshape(b.Len(), classes)
		if p.visit.blocks != nil {
			p.scoresInBlocks(p.score, b, block)
		} else {
			p.visit.fitted.ScoresSparse(p.score, b.Score, block)
		}
		p.measure(sum, b.Rows, p.score)
		b.Rows.Residuals(p.score)
		if few {
			block = p.occurring.Batch(i)
		}
		if inBlock {
			p.addBlock(sum, b, p.score, block.Ones)
		} else {
			kernel.AddCrossSparse(p.Crosses.Cross(sum, columns, classes), block, p.score, b.Fitted)
		}
		if p.visit.Number == 0 {
			kernel.AddDiagonalSparse(sum.Field(statistics.FieldDiagonal, columns), sum.Field(statistics.FieldBounds, columns), block, b.Fitted)
		}
		sum.Count(b.Examples, b.Checksum)
	}
	if inBlock {
		p.gram.End(sum)
	}
	return sum
}

// finishSparse measures the final predictions of a batch of sparse rows. It writes their scores after the stage to
// b.After, their residuals to p.residual and, at the end of a member, their votes.
func (p *Processor) finishSparse(sum, average *accumulate.Sum, b *partition.Batch, votes kernel.Dense) {
	p.visit.fitted.ScoresSparse(b.After, b.Score, p.visit.Of.Features.ExpandSparse(b.Sparse))
	if p.visit.counts != nil {
		p.leaveSelfOut(b, p.visit.counts, p.visit.totals)
	}
	p.score.Reshape(b.After.Rows, b.After.Cols)
	copy(p.score.Data, b.After.Data)
	p.conclude(sum, b.Rows, b.Examples, b.After, p.residual)
	p.judgeOwn(sum, b.Rows.Slice(0, b.Examples), b.Offset, 0)
	if EndsMember(p.Plan, p.visit.Stage) {
		p.vote(average, b.Rows, b.Examples, votes, b.Votes)
	}
}
