package visit

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

// Concurrent is the executor that uses all cores, reads ahead, and writes while it computes further outcomes. It is safe
// for concurrent use.
type Concurrent struct {
	readAhead int64 // read-ahead in bytes, besides one segment; 0: defaultReadAhead
}

// defaultReadAhead is sufficient for 64 segments of 16 messages, each of the brokers' default maximum size. Topics may
// allow far larger messages, whose number it limits.
const defaultReadAhead = 1 << 30

// Run executes a scan.
func (c Concurrent) Run(ctx context.Context, s *Scan) error {
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(max(s.MaxWrites, 1))
	last := map[*partition.Share]chan struct{}{} // closed after the last write of a share
	err := c.compute(ctx, s, func(of *partition.Share, write Write) {
		before, done := last[of], make(chan struct{})
		last[of] = done
		writing.Go(func() error {
			defer close(done)
			if s.InOrder && before != nil {
				<-before
			}
			return write(ctx)
		})
	})
	if unwritten := writing.Wait(); unwritten != nil {
		return unwritten // a failed write cancels the scan, and err only reports the cancellation
	}
	return err
}

// compute returns when all outcomes are collected. It starts writes with background; they may still be running.
func (c Concurrent) compute(ctx context.Context, s *Scan, background func(*partition.Share, Write)) error {
	group, ctx := errgroup.WithContext(ctx)
	processors := runtime.GOMAXPROCS(0)
	readAhead := cmp.Or(c.readAhead, defaultReadAhead)
	r := &running{
		Scan: s, background: background, readAhead: readAhead, ahead: semaphore.NewWeighted(readAhead),
		loaded: make(chan *Load), outcomes: make(chan *finished, processors),
		tokens: make(chan struct{}, 2*processors),
	}
	group.Go(func() error { return r.read(ctx) })
	var processing sync.WaitGroup
	for range processors {
		process := s.Processor()
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
	group.Go(func() error { return r.collectInOrder() })
	return group.Wait()
}

// running is a scan in progress.
type running struct {
	*Scan
	loaded   chan *Load
	outcomes chan *finished
	// A segment acquires a token before it is read, and releases it when its outcome is collected.
	// That limits the number of outcomes that wait for an earlier one. As segments acquire tokens in order, the first segment
	// that is not collected always has one.
	tokens     chan struct{}
	readAhead  int64
	ahead      *semaphore.Weighted // read-ahead bytes
	background func(*partition.Share, Write)
}

// finished is a segment whose outcome is not collected yet.
type finished struct {
	*Load
	collect Collector
}

// token acquires a token.
func (r *running) token(ctx context.Context) error {
	select {
	case r.tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read sends the segments of one share after the other. The last shares, as many as there are processors, are
// interleaved. Their last segments, which are short, then come at the end, so that no processor works on a long segment
// while the others are idle.
func (r *running) read(ctx context.Context) error {
	defer close(r.loaded)
	shares := r.Shares
	for ; len(shares) > cap(r.outcomes) || r.Apart && len(shares) > 1; shares = shares[1:] {
		for l, err := range r.Loads(ctx, shares[0], func() error { return r.token(ctx) }) {
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
	return r.interleave(ctx, shares)
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

// interleave sends segments of the shares in round-robin order.
func (r *running) interleave(ctx context.Context, shares []*partition.Share) error {
	var reading []func() (*Load, error, bool)
	for _, p := range shares {
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

// send waits until the read-ahead limit allows a load, and sends it to the next free processor.
func (r *running) send(ctx context.Context, l *Load) error {
	for _, m := range l.Messages {
		l.bytes += int64(len(m.Value))
	}
	if l.bytes = min(l.bytes, r.readAhead); l.inMemory {
		l.bytes = 0
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

// process processes segments in one goroutine.
func (r *running) process(ctx context.Context, process LoadProcessor) error {
	for l := range r.loaded {
		collect, err := process(ctx, l)
		if err != nil {
			return err
		}
		select {
		case r.outcomes <- &finished{l, collect}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// collectInOrder collects the outcomes of all segments, by share in segment order.
func (r *running) collectInOrder() error {
	next, early := map[*partition.Share]int{}, map[*partition.Share]map[int]*finished{}
	for f := range r.outcomes {
		in := f.Share
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
				r.background(in, write)
			}
			r.ahead.Release(ready.bytes)
			<-r.tokens
		}
	}
	return nil
}
