//go:build unix

package main

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// fleet is the worker, solver, submitter and runner processes of a campaign. Its methods may be called from any goroutine.
type fleet struct {
	folder, program string
	args            []string        // of every command: the configuration
	env             func() []string // of the next process; nil: that of this process

	mutex   sync.Mutex
	members map[role][]*process // running and not told to end, in the order of their start
	count   map[role]int        // of all processes ever started

	// unexpected receives the processes that ended without being told to.
	unexpected chan *process
}

func newFleet(folder, program string, args []string) *fleet {
	return &fleet{folder: folder, program: program, args: args,
		members: map[role][]*process{}, count: map[role]int{}, unexpected: make(chan *process, 100)}
}

// command returns a role's command line.
func (f *fleet) command(r role, more ...string) []string {
	command := map[role]string{worker: "work", solver: "solve", submitter: "train", runner: "run"}[r]
	return slices.Concat([]string{command}, f.args, []string{"--log", "json"}, more)
}

// start starts another process of a role. more is appended to its command line.
func (f *fleet) start(r role, more ...string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count[r]++
	var env []string
	if f.env != nil {
		env = f.env()
	}
	p, err := launch(f.folder, r, f.count[r], f.program, f.command(r, more...), env, func(p *process, told bool) {
		if !told {
			f.drop(p)
			f.unexpected <- p
		}
	})
	if err == nil {
		f.members[r] = append(f.members[r], p)
	}
	return err
}

func (f *fleet) drop(p *process) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.members[p.role] = slices.DeleteFunc(f.members[p.role], func(o *process) bool { return o == p })
}

func (f *fleet) all(r role) []*process {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.members[r])
}

// take returns a process of a role that no fault is in force on, or nil if there is none. target selects one of them.
func (f *fleet) take(r role, target int) *process {
	free := slices.DeleteFunc(f.all(r), func(p *process) bool { return !p.free() })
	if len(free) == 0 {
		return nil
	}
	return free[target%len(free)]
}

// kill kills processes with SIGKILL and waits until they have ended.
func (f *fleet) kill(list ...*process) {
	for _, p := range list {
		f.drop(p)
		p.kill()
	}
}

// leave sends SIGTERM to a process and waits until it has ended.
func (f *fleet) leave(p *process) error {
	f.drop(p)
	return p.leave()
}

// scale starts processes, or makes some leave at the same time, until as many of each role are running.
func (f *fleet) scale(want map[role]int) error {
	var leaving errgroup.Group
	for r, n := range want {
		have := f.all(r)
		for range max(0, n-len(have)) {
			if err := f.start(r); err != nil {
				return errors.Join(err, leaving.Wait())
			}
		}
		for _, p := range have[min(n, len(have)):] {
			leaving.Go(func() error { return f.leave(p) })
		}
	}
	return leaving.Wait()
}

// close kills all remaining processes.
func (f *fleet) close() {
	for _, r := range []role{runner, submitter, worker, solver} {
		f.kill(f.all(r)...)
	}
}
