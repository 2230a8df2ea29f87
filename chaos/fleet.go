//go:build unix

package main

import (
	"errors"
	"slices"
	"sync"
)

// fleet is the processes of a campaign.
type fleet struct {
	folder, program string
	args            []string // which configuration

	mutex   sync.Mutex
	members map[role][]*process // that run and are not told to end, in the order of their start
	count   map[role]int        // that were ever started
	leaving sync.WaitGroup

	// unasked has those that ended without being told to.
	unasked chan *process
}

func newFleet(folder, program string, args []string) *fleet {
	return &fleet{folder: folder, program: program, args: args,
		members: map[role][]*process{}, count: map[role]int{}, unasked: make(chan *process, 100)}
}

// command is what a role is called, and what it is told.
func (f *fleet) command(r role, more ...string) []string {
	command := map[role]string{worker: "work", solver: "solve", submitter: "train"}[r]
	return slices.Concat([]string{command}, f.args, []string{"--log", "json"}, more)
}

// start adds a process.
func (f *fleet) start(r role, more ...string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count[r]++
	p, err := launch(f.folder, r, f.count[r], f.program, f.command(r, more...), func(p *process, asked bool) {
		if !asked {
			f.drop(p)
			f.unasked <- p
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

// take chooses one that runs undisturbed; nil if there is none.
func (f *fleet) take(r role, target int) *process {
	free := slices.DeleteFunc(f.all(r), func(p *process) bool { return !p.free() })
	if len(free) == 0 {
		return nil
	}
	return free[target%len(free)]
}

// kill ends processes at once.
func (f *fleet) kill(list ...*process) {
	for _, p := range list {
		f.drop(p)
		p.kill()
	}
}

// leave asks a process to end.
func (f *fleet) leave(p *process) error {
	f.drop(p)
	return p.leave()
}

// muster makes a role as many as it was.
func (f *fleet) muster(r role, want int) error {
	have := f.all(r)
	for range max(0, want-len(have)) {
		if err := f.start(r); err != nil {
			return err
		}
	}
	return f.dismiss(have[min(want, len(have)):]...)
}

// dismiss asks several to leave at the same time.
func (f *fleet) dismiss(list ...*process) error {
	errs := make([]error, len(list))
	var group sync.WaitGroup
	for i, p := range list {
		group.Go(func() { errs[i] = f.leave(p) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// close kills all that are left.
func (f *fleet) close() {
	for _, r := range []role{submitter, worker, solver} {
		f.kill(f.all(r)...)
	}
}
