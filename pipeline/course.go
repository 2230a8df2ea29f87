package pipeline

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// compute ends when all outcomes are collected; writes may go on.
func (s *sweep) compute(ctx context.Context, shares []*share, behind func(write func(context.Context) error)) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	if s.room == 0 {
		s.room = aheadBytes
	}
	c := &course{
		sweep: s, behind: behind, ahead: semaphore.NewWeighted(s.room),
		fed: make(chan *load), again: make(chan *load, segments(shares)), outcomes: make(chan *shared, workers),
		tokens: make(chan struct{}, 2*workers),
	}
	group.Go(func() error { return c.feed(ctx, shares) })
	var benches sync.WaitGroup
	for range workers {
		work := s.bench()
		benches.Add(1)
		group.Go(func() error {
			defer benches.Done()
			return c.work(ctx, work)
		})
	}
	group.Go(func() error {
		benches.Wait()
		close(c.outcomes)
		return nil
	})
	group.Go(func() error { return c.inOrder(segments(shares)) })
	return group.Wait()
}

// course is a sweep under way.
type course struct {
	*sweep
	fed      chan *load
	again    chan *load // those of the second round, in order, with room for all
	outcomes chan *shared
	// A token is held from when a segment is read, or taken up again, until its
	// outcome is collected, so that what waits for its turn is bounded. As segments
	// come in order, the first that is not collected always has one.
	tokens chan struct{}
	ahead  *semaphore.Weighted // room for what is read
	behind func(write func(context.Context) error)
}

type shared struct {
	*load
	*outcome
}

func (c *course) token(ctx context.Context) error {
	select {
	case c.tokens <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// feed sends the segments of one share after the other, but of the last, as many
// as there are benches, one of each in turn: their short ends come last then, and
// no bench is at a long segment while the others have nothing left to do.
func (c *course) feed(ctx context.Context, shares []*share) error {
	defer close(c.fed)
	for ; len(shares) > cap(c.outcomes); shares = shares[1:] {
		if err := c.alternate(ctx, shares[:1]); err != nil {
			return err
		}
	}
	return c.alternate(ctx, shares)
}

// alternate sends a segment of each share in turn.
func (c *course) alternate(ctx context.Context, shares []*share) error {
	var going []func() (*load, error, bool)
	for _, share := range shares {
		next, stop := iter.Pull2(c.loads(ctx, share, func() error { return c.token(ctx) }))
		defer stop()
		going = append(going, next)
	}
	for len(going) > 0 {
		var more []func() (*load, error, bool)
		for _, next := range going {
			l, err, is := next()
			if !is {
				continue
			}
			if err == nil {
				err = c.send(ctx, l)
			}
			if err != nil {
				return err
			}
			more = append(more, next)
		}
		going = more
	}
	return nil
}

// send hands a load to whichever bench is free.
func (c *course) send(ctx context.Context, l *load) error {
	if l.segment().raw == nil {
		l.held = min(rawBytes(l.raw), c.room)
	}
	if err := c.ahead.Acquire(ctx, l.held); err != nil {
		return err
	}
	select {
	case c.fed <- l:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work is what one bench does.
func (c *course) work(ctx context.Context, work func(context.Context, *load) (*outcome, error)) error {
	each := func(l *load) error {
		o, err := work(ctx, l)
		if err != nil {
			return err
		}
		select {
		case c.outcomes <- &shared{l, o}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for l := range c.fed {
		if err := each(l); err != nil {
			return err
		}
	}
	for c.twice {
		if err := c.token(ctx); err != nil {
			return err
		}
		select {
		case l, more := <-c.again:
			if !more {
				<-c.tokens
				return nil
			}
			if err := each(l); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inOrder collects the outcomes of so many segments.
func (c *course) inOrder(segments int) error {
	type turn struct {
		share *share
		round int
	}
	if segments == 0 {
		close(c.again)
	}
	next, early := map[turn]int{}, map[turn]map[int]*shared{}
	for o := range c.outcomes {
		turn := turn{o.share, o.load.round}
		if early[turn] == nil {
			early[turn] = map[int]*shared{}
		}
		early[turn][o.load.at] = o
		for {
			at := next[turn]
			ready := early[turn][at]
			if ready == nil {
				break
			}
			delete(early[turn], at)
			next[turn]++
			ready.outcome.at, ready.outcome.round = at, turn.round
			write, err := c.collect(turn.share, ready.outcome)
			if err != nil {
				return err
			}
			if write != nil {
				c.behind(write)
			}
			c.ahead.Release(ready.held)
			<-c.tokens
			if turn.round == 0 {
				if c.twice {
					c.again <- ready.load.again()
				}
				if segments--; segments == 0 {
					close(c.again)
				}
			}
		}
	}
	return nil
}
