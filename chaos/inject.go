//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// injector injects the faults of a schedule into a run, and repairs each when its time is over.
type injector struct {
	cluster *cluster
	fleet   *fleet
	watch   *watch
	journal *journal
	front   role                   // the submitter, or in a chain a runner
	before  func()                 // called at the beginning; nil: nothing is
	submit  func(again bool) error // starts another of that role

	over    <-chan struct{} // closed when the run has ended; all repairs happen then
	repairs sync.WaitGroup
	mutex   sync.Mutex
	errs    []error
	done    map[kind]int // the faults injected
}

// run injects each fault at its moment, and returns when the run has ended and all faults are repaired.
func (i *injector) run(ctx context.Context, faults []fault) error {
	if i.before != nil {
		i.before()
	}
	for _, f := range faults {
		if !i.watch.await(ctx, f.at) {
			break
		}
		i.sleep(f.after)
		i.journal.note("%s", f)
		if i.inject(ctx, f) {
			i.done[f.kind]++
		} else {
			i.journal.note("%s: no target", f.kind)
		}
	}
	select {
	case <-i.over:
	case <-ctx.Done():
	}
	i.repairs.Wait()
	return errors.Join(i.errs...)
}

// inject injects one fault, and reports whether there was a target.
func (i *injector) inject(ctx context.Context, f fault) bool {
	switch f.kind {
	case killWorker, killSolver, killSubmitter:
		r := i.role(f.kind)
		p := i.fleet.take(r, f.target)
		if p == nil {
			return false
		}
		i.fleet.kill(p)
		i.later(f, func() error { return i.replace(r, 1, f.again) })
	case killWorkers, killSolvers:
		r := i.role(f.kind)
		all := i.fleet.all(r)
		i.fleet.kill(all...)
		i.later(f, func() error { return i.replace(r, len(all), false) })
		return len(all) > 0
	case stopWorker, stopSolver, stopSubmitter:
		p := i.fleet.take(i.role(f.kind), f.target)
		if p == nil {
			return false
		}
		p.hold()
		i.later(f, func() error {
			p.release()
			return nil
		})
	case joinWorker:
		i.check(i.fleet.start(worker))
	case leaveWorker:
		p := i.fleet.take(worker, f.target)
		if p == nil {
			return false
		}
		i.repairs.Go(func() { i.check(i.fleet.leave(p)) })
		i.later(f, func() error { return i.replace(worker, 1, false) })
	case killBroker:
		node := f.target % nodes
		if err := i.cluster.kill(ctx, node); err != nil {
			i.check(err)
			return false
		}
		// With ctx, so that an interrupted campaign does not wait for the broker.
		i.later(f, func() error { return i.cluster.revive(ctx, node) })
	case killBrokers:
		first, second := f.target%nodes, (f.target+1)%nodes
		if err := errors.Join(i.cluster.kill(ctx, first), i.cluster.kill(ctx, second)); err != nil {
			i.check(err)
			return false
		}
		i.later(f, func() error {
			return errors.Join(i.cluster.revive(ctx, first), i.cluster.revive(ctx, second))
		})
	case rollBrokers:
		i.later(f, func() error {
			for n := range nodes {
				node := (f.target + n) % nodes
				if err := errors.Join(i.cluster.kill(ctx, node), i.cluster.revive(ctx, node)); err != nil {
					return err
				}
			}
			return nil
		})
	case electBehind:
		return i.electBehind(ctx, f)
	case resetBroker:
		i.journal.note("%d connections are reset", i.cluster.proxies[f.target%nodes].Reset())
	case delayBroker:
		p := i.cluster.proxies[f.target%nodes]
		p.Delay(time.Duration(f.amount) * time.Millisecond)
		i.later(f, func() error {
			p.Delay(0)
			return nil
		})
	case loseAnswers:
		i.cluster.proxies[f.target%nodes].LoseAnswers(f.amount)
	default:
		panic(fmt.Sprintf("chaos: unknown kind of fault: %s", f.kind))
	}
	return true
}

// role returns the role that a kind of fault is for.
func (i *injector) role(k kind) role {
	switch k {
	case killSolver, killSolvers, stopSolver:
		return solver
	case killSubmitter, stopSubmitter:
		return i.front
	}
	return worker
}

// replace starts processes in the place of those that ended.
func (i *injector) replace(r role, count int, again bool) error {
	for range count {
		start := func() error { return i.fleet.start(r) }
		if r == i.front {
			start = func() error { return i.submit(again) }
		}
		if err := start(); err != nil {
			return err
		}
	}
	return nil
}

// later repairs a fault after its duration, or when the run has ended.
func (i *injector) later(f fault, repair func() error) {
	i.repairs.Go(func() {
		i.sleep(f.lasts)
		i.check(repair())
		i.journal.note("%s (target %d): repaired", f.kind, f.target)
	})
}

// sleep waits for a duration, or until the run has ended.
func (i *injector) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.over:
	}
}

// check keeps an error for run to return.
func (i *injector) check(err error) {
	if err == nil {
		return
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.errs = append(i.errs, err)
}
