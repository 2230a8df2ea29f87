package worker

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
)

// compute returns when all outcomes are collected. It starts writes with background, and they may go on.
func (s *scan) compute(ctx context.Context, partitions []*partition.State, background func(write func(context.Context) error)) error {
	group, ctx := errgroup.WithContext(ctx)
	processors := runtime.GOMAXPROCS(0)
	if s.readAhead == 0 {
		s.readAhead = defaultReadAhead
	}
	segments := 0
	for _, p := range partitions {
		segments += s.segments(p)
	}
	r := &runningScan{
		scan: s, background: background, ahead: semaphore.NewWeighted(s.readAhead),
		loaded: make(chan *load), again: make(chan *load, segments), outcomes: make(chan *finished, processors),
		tokens: make(chan struct{}, 2*processors),
	}
	group.Go(func() error { return r.read(ctx, partitions) })
	var processing sync.WaitGroup
	for range processors {
		process := s.process()
		processing.Add(1)
		group.Go(func() error {
			defer processing.Done()
			return r.process(ctx, process)
		})
	}
	group.Go(func() error {
		processing.Wait()
		close(r.outcomes)
		return nil
	})
	group.Go(func() error { return r.collectInOrder(segments) })
	return group.Wait()
}

// runningScan is a scan under way.
type runningScan struct {
	*scan
	loaded   chan *load
	again    chan *load // of the second round, in order; never full
	outcomes chan *finished
	// A segment takes a token before it is read, or enters the second round, and returns it when its outcome is collected. That
	// bounds how many outcomes wait for an earlier one. As segments take tokens in order, the first segment that is not collected
	// always has one.
	tokens     chan struct{}
	ahead      *semaphore.Weighted // of bytes that may be read ahead
	background func(write func(context.Context) error)
}

// finished is a segment whose outcome is not collected yet.
type finished struct {
	*load
	*outcome
}

// token waits for a token.
func (r *runningScan) token(ctx context.Context) error {
	select {
	case r.tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read sends the segments of one partition after the other. The last partitions, as many as there are processors, take turns.
// Their last segments, which are short, then come at the end, so no processor works on a long segment while the others have
// nothing to do.
func (r *runningScan) read(ctx context.Context, partitions []*partition.State) error {
	defer close(r.loaded)
	for ; len(partitions) > cap(r.outcomes); partitions = partitions[1:] {
		if err := r.takeTurns(ctx, partitions[:1]); err != nil {
			return err
		}
	}
	return r.takeTurns(ctx, partitions)
}

// takeTurns sends a segment of each partition in turn.
func (r *runningScan) takeTurns(ctx context.Context, partitions []*partition.State) error {
	var reading []func() (*load, error, bool)
	for _, p := range partitions {
		next, stop := iter.Pull2(r.loads(ctx, p, func() error { return r.token(ctx) }))
		defer stop()
		reading = append(reading, next)
	}
	for len(reading) > 0 {
		var more []func() (*load, error, bool)
		for _, next := range reading {
			l, err, ok := next()
			if !ok {
				continue
			}
			if err == nil {
				err = r.send(ctx, l)
			}
			if err != nil {
				return err
			}
			more = append(more, next)
		}
		reading = more
	}
	return nil
}

// send waits until a load may be read ahead, and gives it to the next processor that is free.
func (r *runningScan) send(ctx context.Context, l *load) error {
	if l.segment().Messages() == nil {
		l.bytes = min(partition.ValueBytes(l.messages), r.readAhead)
	}
	if err := r.ahead.Acquire(ctx, l.bytes); err != nil {
		return err
	}
	select {
	case r.loaded <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// process processes segments in one goroutine, until none is left in either round.
func (r *runningScan) process(ctx context.Context, process func(context.Context, *load) (*outcome, error)) error {
	one := func(l *load) error {
		o, err := process(ctx, l)
		if err != nil {
			return err
		}
		select {
		case r.outcomes <- &finished{l, o}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for l := range r.loaded {
		if err := one(l); err != nil {
			return err
		}
	}
	for r.twice {
		if err := r.token(ctx); err != nil {
			return err
		}
		select {
		case l, more := <-r.again:
			if !more {
				<-r.tokens
				return nil
			}
			if err := one(l); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// collectInOrder collects the outcomes of all segments, those of each partition and round in the order of its segments.
func (r *runningScan) collectInOrder(segments int) error {
	type sequence struct {
		partition *partition.State
		round     int
	}
	if segments == 0 {
		close(r.again)
	}
	next, early := map[sequence]int{}, map[sequence]map[int]*finished{}
	for f := range r.outcomes {
		in := sequence{f.partition, f.load.round}
		if early[in] == nil {
			early[in] = map[int]*finished{}
		}
		early[in][f.index] = f
		for {
			ready := early[in][next[in]]
			if ready == nil {
				break
			}
			delete(early[in], next[in])
			next[in]++
			ready.outcome.segment, ready.outcome.round = ready.index, in.round
			write, err := r.collect(in.partition, ready.outcome)
			if err != nil {
				return err
			}
			if write != nil {
				r.background(write)
			}
			r.ahead.Release(ready.bytes)
			<-r.tokens
			if in.round == 0 {
				if r.twice {
					r.again <- ready.load.again()
				}
				if segments--; segments == 0 {
					close(r.again)
				}
			}
		}
	}
	return nil
}
