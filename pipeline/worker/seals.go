package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// seals are the known seals of a run, by this and other workers. The zero value is empty. A scan reads the seals of the
// previous stage while it writes those of its own, so of, add and forget are safe for concurrent use.
type seals struct {
	mutex sync.Mutex
	known map[sealed]*statistics.Seal

	next map[int]int64 // by statistics partition: offset of the next message to read
}

// sealed is a share, by its first partition, and a stage.
type sealed struct{ share, stage int }

// of returns the seal of a share after a stage, or nil.
func (s *seals) of(share, stage int) *statistics.Seal {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.known[sealed{share, stage}]
}

// add adds a seal, or replaces the one of its share and stage.
func (s *seals) add(seal *statistics.Seal) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.known == nil {
		s.known = map[sealed]*statistics.Seal{}
	}
	s.known[sealed{seal.Partition, seal.Stage}] = seal
}

// forget causes the residuals of a share after a stage to be published again.
func (s *seals) forget(share, stage int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.known, sealed{share, stage})
}

// sealDigest is the common properties of a seal's messages.
type sealDigest struct {
	wire.Identity
	digest wire.Digest
}

// findSeals reads the seals of shares that other workers owned before. There are none until stage 0 is final.
func (w *Worker) findSeals(ctx context.Context, adopted []*partition.Share) error {
	if final, _ := w.chain.Final(0); final == nil || w.plan.Update() != nil || len(adopted) == 0 {
		return nil
	}
	var numbers []int
	for _, p := range adopted {
		numbers = append(numbers, w.statisticsOf(w.first(p)))
	}
	slices.Sort(numbers)
	for _, number := range slices.Compact(numbers) {
		err := w.readSeals(ctx, number)
		for errors.As(err, new(*kafkalog.DeletedError)) { // retention has deleted seals in the meantime: their residuals are computed again
			err = w.readSeals(ctx, number)
		}
		if err != nil {
			return fmt.Errorf("read seals: %w", err)
		}
	}
	return nil
}

// readSeals reads the seals on a partition of the statistics topic, from where it last stopped to the end.
func (w *Worker) readSeals(ctx context.Context, number int) error {
	topic := w.Topics.Statistics
	first, end, err := w.Log.Bounds(ctx, topic, number)
	if err != nil {
		return err
	}
	from, begun := w.seals.next[number]
	if !begun && number < len(w.plan.Since.Statistics) {
		from = w.plan.Since.Statistics[number]
	}
	collector, found := wire.Collector[float64]{}, map[sealDigest]*protocol.Written{}
	err = w.Between(ctx, topic, number, min(max(first, from), end), end, func(m protocol.Message) error {
		if m.Run() != w.run || m.Kind() != statistics.KindSeal {
			return nil
		}
		id, err := wire.IdentityOf(m.Message)
		if err != nil {
			return nil // a damaged seal does not count
		}
		key := sealDigest{id, m.Digest()}
		if found[key] == nil {
			found[key] = protocol.NewWritten(id, topic, number)
		}
		found[key].Add(m)
		r, err := w.Codec.CollectDouble(&collector, m.Message)
		if err != nil || r == nil {
			return nil
		}
		whole := found[key]
		delete(found, key)
		// This worker may not have accepted the stage's final weights yet. Then it keeps the seal, and checks the seal's parent
		// when it uses it.
		if _, final := w.chain.Final(r.Stage); final != "" && r.Parent != final {
			return nil
		}
		seal, err := statistics.SealOf(r)
		if err != nil {
			return nil
		}
		w.seals.add(seal)
		w.written.add(whole)
		return nil
	})
	if err != nil {
		return err
	}
	if w.seals.next == nil {
		w.seals.next = map[int]int64{}
	}
	w.seals.next[number] = end
	return nil
}
