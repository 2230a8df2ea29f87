//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// fleet is the worker and solver processes of a campaign, and those of its front. Its methods may be called from any goroutine.
type fleet struct {
	folder, program string
	commands        map[role]string // of each role
	args            []string        // of every command: the configuration
	env             func() []string // of the next process; nil: that of this process

	mutex   sync.Mutex
	members map[role][]*process // running and not told to end, in the order of their start
	count   map[role]int        // of all processes ever started

	// unexpected receives the processes that ended without being told to.
	unexpected chan *process
}

// newFleet returns a fleet without processes. command is the command of the front, and count the number of processes started before.
func newFleet(folder, program, command string, args []string, count map[role]int) *fleet {
	return &fleet{folder: folder, program: program, commands: map[role]string{worker: "work", solver: "solve", front: command}, args: args,
		members: map[role][]*process{}, count: count, unexpected: make(chan *process, 100)}
}

// start starts another process of a role, whose output goes to a file with its name. more is appended to its command line.
func (f *fleet) start(r role, more ...string) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count[r]++
	name := fmt.Sprintf("%s-%d", r, f.count[r])
	p := &process{role: r, name: name, log: filepath.Join(f.folder, name+".log"), ended: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer file.Close() // the process has a copy of the descriptor
	p.command = exec.Command(f.program, slices.Concat([]string{f.commands[r]}, f.args, []string{"--log", "json"}, more)...)
	if p.command.Stdout, p.command.Stderr = file, file; f.env != nil {
		p.command.Env = f.env()
	}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the terminal's Ctrl-C does not reach it
	if err := p.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	f.members[r] = append(f.members[r], p)
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
		if f.drop(p) {
			f.unexpected <- p
		}
	}()
	return nil
}

// drop removes a process that is told to end, or has ended. It reports whether the process was there.
func (f *fleet) drop(p *process) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	at := slices.Index(f.members[p.role], p)
	if at >= 0 {
		f.members[p.role] = slices.Delete(f.members[p.role], at, at+1)
	}
	return at >= 0
}

func (f *fleet) all(r role) []*process {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.members[r])
}

// take returns a process of a role that is not held, or nil if there is none. target selects one of them.
func (f *fleet) take(r role, target int) *process {
	free := slices.DeleteFunc(f.all(r), func(p *process) bool { return p.held.Load() })
	if len(free) == 0 {
		return nil
	}
	return free[target%len(free)]
}

// kill kills processes, also held ones, with SIGKILL and waits until they have ended.
func (f *fleet) kill(list ...*process) {
	for _, p := range list {
		f.drop(p)
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// leave sends SIGTERM to a process and waits until it has ended. It returns an error if the process is too slow or fails.
func (f *fleet) leave(p *process) error {
	f.drop(p)
	p.release()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if sleep(leaveTime, p.ended) {
		p.signal(syscall.SIGQUIT) // makes the Go runtime print all goroutines
		sleep(time.Second, p.ended)
		f.kill(p)
		return fmt.Errorf("%s still runs %v after SIGTERM: see %s", p.name, leaveTime, p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w, %v after SIGTERM: see %s", p.name, p.err, time.Since(began).Round(time.Millisecond), p.log)
	}
	return nil
}

// scale starts processes, or makes some leave concurrently, until the wanted number of each role is running.
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
	for _, r := range []role{front, worker, solver} {
		f.kill(f.all(r)...)
	}
}

// leaveTime is the time that a process may take to end after SIGTERM. Orchestrators wait at least that long before SIGKILL.
const leaveTime = 10 * time.Second

// role is what a process does. It is the first part of the process's name.
type role string

const (
	worker role = "worker"
	solver role = "solver"
	front  role = "front" // submits a run and follows it, or retrains: one is active, the others stand by
)

// process is one process of the program under test.
type process struct {
	role    role
	name    string // such as worker-3
	log     string // the file with its output
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // of the process; set before ended is closed
	held    atomic.Bool   // by SIGSTOP
}

// hold suspends the process until release. It does nothing if the process has ended.
func (p *process) hold() {
	p.signal(syscall.SIGSTOP)
	p.held.Store(true) // after the signal, which release takes back
}

// release resumes a held process.
func (p *process) release() {
	if p.held.Swap(false) {
		p.signal(syscall.SIGCONT)
	}
}

func (p *process) signal(s syscall.Signal) {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(fmt.Sprintf("chaos: signal %v to %s: %v", s, p.name, err)) // a child of this process can always be signalled
	}
}

// A Go program reads the time from the kernel without the C library, so a preloaded library can't change it. Processes
// with a wrong clock run a program that is built with another time.Now, by an overlay on the standard library.

// maxSkew is the maximum error of a clock. Brokers refuse messages from more than an hour ahead (message.timestamp.after.max.ms).
const maxSkew = 45 * time.Minute

// skewVariable is the environment variable with the number of seconds by which the clock of a process is ahead. It has
// no prefix STAGEWISE_, as variables with this prefix set keys of the configuration.
const skewVariable = "CHAOS_SKEW"

const skewSource = `package time

import "syscall"

var chaosSkew = func() int64 {
	text, _ := syscall.Getenv("` + skewVariable + `")
	seconds, _ := atoi(text)
	return int64(seconds)
}()
`

// buildSkewed builds the program with a clock that is ahead by skewVariable, in a folder, and returns its file.
func buildSkewed(ctx context.Context, folder string) (string, error) {
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	original := filepath.Join(strings.TrimSpace(root), "src", "time", "time.go")
	content, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	const asked = "\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(content), asked); n != 1 {
		return "", fmt.Errorf("%s asks for the time in %d places, expected one: %q", original, n, asked)
	}
	changed, added := filepath.Join(folder, "time.go.txt"), filepath.Join(folder, "skew.go.txt")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		original: changed, filepath.Join(filepath.Dir(original), "chaos_skew.go"): added}})
	if err != nil {
		return "", err
	}
	file, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "stagewise-skewed")
	for name, text := range map[string]string{
		changed: strings.Replace(string(content), asked, asked+"\tsec += chaosSkew\n", 1), added: skewSource, file: string(overlay),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	_, err = output(ctx, "go", "build", "-overlay", file, "-o", program, "./cmd/stagewise")
	return program, err
}
