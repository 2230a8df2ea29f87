package pipeline

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/source"
)

// threads are what a process waits for.
type threads []*actor

// idle reports whether all go on.
func (t threads) idle() bool {
	return !slices.ContainsFunc(t, func(a *actor) bool { return a.ended })
}

// inThreads runs each feed of a process in a thread of it, until all have ended, or one has an error.
func (s *simulation) inThreads(ctx context.Context, process *actor, feeds []*source.Feed) (err error) {
	var running threads
	for n, feed := range feeds {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, feed %d", process.name, n), func() error { return feed.Run(ctx) }))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		if err == nil {
			err = killed
		}
		for _, t := range running {
			if t.ended && t.err != nil && err == nil {
				err = t.err
			}
		}
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
		if err != nil {
			for _, t := range running {
				t.killed, t.paused, t.waits = true, 0, nil
			}
		}
		if killed != nil {
			return killed
		}
	}
	return err
}

// startThread adds a thread of a process.
func (s *simulation) startThread(process *actor, name string, do func() error) *actor {
	t := &actor{name: name, process: process, restart: func() {}}
	t.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		growStack()
		t.err = do()
		t.ended = true
	})
	s.actors = append(s.actors, t)
	return t
}

// process returns what an actor works on runs with: its roles are threads.
func (s *simulation) process(a *actor) dispatch.Process {
	return dispatch.Process{BLAS: s.blas, Arithmetic: simArithmetic, Executor: sequential{},
		Together: func(parts ...func()) { s.together(a, parts) }}
}

// together runs the parts of a process in threads of it, and returns when all have ended. If the process is killed, its threads are too.
func (s *simulation) together(process *actor, parts []func()) {
	var running threads
	for n, part := range parts {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, thread %d", process.name, n), func() error {
			part()
			return nil
		}))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		for _, t := range running {
			for killed != nil && !t.ended {
				t.killed, t.waits, s.log.current = true, nil, t
				t.resume()
			}
			if t.ended {
				s.remove(t)
			}
		}
		s.log.current = process
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
	}
}
