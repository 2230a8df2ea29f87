// Package fold adds the statistics of a chain's runs to the state of the chain:
//
//	statistics of a run ──Grams──▶ moments of the stages
package fold

import (
	"context"
	"errors"
	"io"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver/inbox"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Grams adds the Gram matrices of a run from the statistics topic to the moments of each stage, in the order in which the
// run's solver added them. whole is false if matrices are missing.
func Grams(ctx context.Context, c *protocol.Client, since schemas.StatePlace, moments []*solve.Moments) (whole bool, err error) {
	if since.Since == nil {
		return false, nil
	}
	found := map[wire.Identity]*accumulate.Sum{}
	for n, from := range since.Since.Statistics {
		if err := read(ctx, c, since.Run, n, from, found); err != nil {
			return false, err
		}
	}
	tree := coverage.Tree{Parts: len(since.Partitions), Group: since.Group}
	for t, m := range moments {
		if m.Gram == nil {
			continue
		}
		take := func(kind wire.Kind) func(from, to int) (*accumulate.Sum, error) {
			return func(from, to int) (*accumulate.Sum, error) {
				id := wire.Identity{Kind: kind, Run: since.Run, Stage: t, Partition: since.Partitions[from]}
				if to-from > 1 {
					id.Merged = to - from
				}
				sum := found[id]
				delete(found, id)
				return sum, nil
			}
		}
		added, leaves := accumulate.NewReduction(tree), accumulate.NewReduction(tree)
		lacking, err := added.AddReady(take(statistics.KindGram))
		if err != nil {
			return false, err
		}
		if lacking >= 0 {
			return false, nil
		}
		sum, err := added.Sum()
		if err != nil {
			return false, err
		}
		m.Decay(since.Decay) // of the Gram matrix: the other moments are read later
		if gram, any := sum.Tensors().Find(statistics.FieldGram); any {
			floats.AddScaled(m.Gram, 1, gram.Data)
		}
		takesAway := false
		_, err = leaves.AddReady(func(from, to int) (*accumulate.Sum, error) {
			sum, err := take(statistics.KindLeave)(from, to)
			takesAway = takesAway || sum != nil
			if sum == nil && to-from == 1 { // a run that subtracts nothing has no such records
				sum = &accumulate.Sum{}
			}
			return sum, err
		})
		if err != nil {
			return false, err
		}
		if !takesAway {
			continue
		}
		if sum, err = leaves.Sum(); err != nil {
			return false, err
		}
		if gram, any := sum.Tensors().Find(statistics.FieldGram); any {
			floats.AddScaled(m.Gram, -1, gram.Data)
		}
	}
	return true, nil
}

// read reads the Gram matrices of a run from a partition of the statistics topic: the first for each stage, kind, and
// examples partition or merged partitions.
func read(ctx context.Context, c *protocol.Client, id string, partition int, from int64, found map[wire.Identity]*accumulate.Sum) error {
	singles, doubles := wire.Collector[float32]{}, wire.Collector[float64]{}
	err := c.Remaining(ctx, c.Topics.Statistics, partition, from, 1<<62, func(m protocol.Message) error {
		if m.Run() != id || m.Kind() != statistics.KindGram && m.Kind() != statistics.KindLeave {
			return nil
		}
		of, err := wire.IdentityOf(m.Message)
		if err != nil || of.Stage < 0 || of.Visit != 0 {
			return nil
		}
		key := of
		key.Parent = ""
		if found[key] != nil {
			return nil
		}
		var g *statistics.Gram
		if inbox.IsSingle(of) {
			r, err := c.Codec.CollectSingle(&singles, m.Message)
			if err != nil || r == nil {
				return err
			}
			if g, err = statistics.BlockGramOf(r, func(n int) []float64 { return make([]float64, n) }); err != nil {
				return err
			}
		} else {
			r, err := c.Codec.CollectDouble(&doubles, m.Message)
			if err != nil || r == nil {
				return err
			}
			if g, err = statistics.ExactGramOf(r); err != nil {
				return err
			}
		}
		found[key] = accumulate.NewSum(coverage.Coverage{}, g.Fields())
		return nil
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
