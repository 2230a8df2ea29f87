package scan

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
)

// Concurrent is the executor that uses all cores, reads ahead, and writes while further outcomes are computed. It is safe for
// concurrent use.
type Concurrent struct {
	readAhead int64 // bytes of messages that may be read ahead, beside one segment; 0: defaultReadAhead
}

// defaultReadAhead is enough for 64 segments of 16 messages, each as large as brokers take by default. Topics may allow far
// larger messages, of which it bounds the number.
const defaultReadAhead = 1 << 30

// Begin does it in a goroutine.
func (Concurrent) Begin(do func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return func() error { return <-done }
}

// Run goes through a pass.
func (c Concurrent) Run(ctx context.Context, p *Pass) error {
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(p.MaxWrites)
	last := map[*partition.State]chan struct{}{} // closed when the last write of a partition is done
	err := c.compute(ctx, p, func(of *partition.State, write Write) {
		before, done := last[of], make(chan struct{})
		last[of] = done
		writing.Go(func() error {
			defer close(done)
			if p.InOrder && before != nil {
				<-before
			}
			return write(ctx)
		})
	})
	if unwritten := writing.Wait(); unwritten != nil {
		return unwritten // a write that fails cancels the pass, so err only says that it was cancelled
	}
	return err
}

// compute returns when all outcomes are collected. It starts writes with background, and they may go on.
func (c Concurrent) compute(ctx context.Context, p *Pass, background func(*partition.State, Write)) error {
	group, ctx := errgroup.WithContext(ctx)
	processors := runtime.GOMAXPROCS(0)
	readAhead := cmp.Or(c.readAhead, defaultReadAhead)
	segments := 0
	for _, of := range p.Partitions {
		segments += p.Segments(of)
	}
	r := &running{
		Pass: p, background: background, readAhead: readAhead, ahead: semaphore.NewWeighted(readAhead),
		loaded: make(chan *Load), again: make(chan *Load, segments), outcomes: make(chan *finished, processors),
		tokens: make(chan struct{}, 2*processors),
	}
	group.Go(func() error { return r.read(ctx) })
	var processing sync.WaitGroup
	for range processors {
		process := p.Processor()
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

// running is a pass that is under way.
type running struct {
	*Pass
	loaded   chan *Load
	again    chan *Load // of the second round, in order; never full
	outcomes chan *finished
	// A segment takes a token before it is read, or enters the second round, and returns it when its outcome is collected. That
	// bounds how many outcomes wait for an earlier one. As segments take tokens in order, the first segment that is not collected
	// always has one.
	tokens     chan struct{}
	readAhead  int64
	ahead      *semaphore.Weighted // of bytes that may be read ahead
	background func(*partition.State, Write)
}

// finished is a segment whose outcome is not collected yet.
type finished struct {
	*Load
	collect Collector
}

// token waits for a token.
func (r *running) token(ctx context.Context) error {
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
func (r *running) read(ctx context.Context) error {
	defer close(r.loaded)
	partitions := r.Partitions
	for ; len(partitions) > cap(r.outcomes) || r.Apart && len(partitions) > 1; partitions = partitions[1:] {
		for l, err := range r.Loads(ctx, partitions[0], func() error { return r.token(ctx) }) {
			if err == nil {
				err = r.send(ctx, l)
			}
			if err != nil {
				return err
			}
		}
		if r.Apart {
			if err := r.collected(ctx); err != nil {
				return err
			}
		}
	}
	return r.takeTurns(ctx, partitions)
}

// collected waits until the outcomes of all segments that were read are collected: then all tokens are free.
func (r *running) collected(ctx context.Context) error {
	for range cap(r.tokens) {
		if err := r.token(ctx); err != nil {
			return err
		}
	}
	for range cap(r.tokens) {
		<-r.tokens
	}
	return nil
}

// takeTurns sends a segment of each partition in turn.
func (r *running) takeTurns(ctx context.Context, partitions []*partition.State) error {
	var reading []func() (*Load, error, bool)
	for _, p := range partitions {
		next, stop := iter.Pull2(r.Loads(ctx, p, func() error { return r.token(ctx) }))
		defer stop()
		reading = append(reading, next)
	}
	for len(reading) > 0 {
		var more []func() (*Load, error, bool)
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
func (r *running) send(ctx context.Context, l *Load) error {
	if l.Segment().Messages() == nil {
		l.bytes = min(partition.ValueBytes(l.Messages), r.readAhead)
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
func (r *running) process(ctx context.Context, process Processor) error {
	one := func(l *Load) error {
		collect, err := process(ctx, l)
		if err != nil {
			return err
		}
		select {
		case r.outcomes <- &finished{l, collect}:
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
	for r.Twice {
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
func (r *running) collectInOrder(segments int) error {
	type sequence struct {
		partition *partition.State
		round     int
	}
	if segments == 0 {
		close(r.again)
	}
	next, early := map[sequence]int{}, map[sequence]map[int]*finished{}
	for f := range r.outcomes {
		in := sequence{f.Partition, f.Round}
		if early[in] == nil {
			early[in] = map[int]*finished{}
		}
		early[in][f.Index] = f
		for {
			ready := early[in][next[in]]
			if ready == nil {
				break
			}
			delete(early[in], next[in])
			next[in]++
			write, err := ready.collect()
			if err != nil {
				return err
			}
			if write != nil {
				r.background(f.Partition, write)
			}
			r.ahead.Release(ready.bytes)
			<-r.tokens
			if in.round == 0 {
				if r.Twice {
					r.again <- ready.Load.Again()
				}
				if segments--; segments == 0 {
					close(r.again)
				}
			}
		}
	}
	return nil
}
