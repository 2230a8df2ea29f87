//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// leaveTime is how long a process may take to end after SIGTERM. Orchestrators wait at least that long before they kill.
const leaveTime = 10 * time.Second

// role is what a process does. It is the first part of the process's name.
type role string

const (
	worker    role = "worker"
	solver    role = "solver"
	submitter role = "submitter"
	runner    role = "runner" // of a chain: one is active, the others stand by
)

// process is one process of the program under test.
type process struct {
	role    role
	name    string // such as worker-3
	log     string // the file with its output
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // of the process; set before ended is closed

	mutex sync.Mutex
	told  bool // to end, so its end is expected
	held  bool // by SIGSTOP
}

// launch starts a process whose output goes to a file with its name. Its environment is that of this process if env is nil. It calls
// ended when the process has ended; told means that the process was told to.
func launch(folder string, r role, number int, program string, args, env []string, ended func(p *process, told bool)) (*process, error) {
	name := fmt.Sprintf("%s-%d", r, number)
	p := &process{role: r, name: name, log: filepath.Join(folder, name+".log"), ended: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has a copy of the descriptor
	p.command = exec.Command(program, args...)
	p.command.Stdout, p.command.Stderr, p.command.Env = file, file, env
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the terminal's Ctrl-C does not reach it
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.command.Wait()
		p.mutex.Lock()
		told := p.told
		p.mutex.Unlock()
		close(p.ended)
		ended(p, told)
	}()
	return p, nil
}

// kill kills the process, also a held one, and waits until it has ended.
func (p *process) kill() {
	p.tell()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// leave sends SIGTERM and waits until the process has ended. It returns an error if the process is too slow or fails.
func (p *process) leave() error {
	p.tell()
	p.release()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(leaveTime)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.signal(syscall.SIGQUIT) // makes the Go runtime print all goroutines
		select {
		case <-p.ended:
		case <-time.After(time.Second):
			p.kill()
		}
		return fmt.Errorf("%s still runs %v after SIGTERM: see %s", p.name, leaveTime, p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w, %v after SIGTERM: see %s", p.name, p.err, time.Since(began).Round(time.Millisecond), p.log)
	}
	return nil
}

// hold suspends the process until release. It does nothing if the process has ended.
func (p *process) hold() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.held = true
	p.signal(syscall.SIGSTOP)
}

// release resumes a held process.
func (p *process) release() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held {
		p.held = false
		p.signal(syscall.SIGCONT)
	}
}

// tell notes that the process is told to end.
func (p *process) tell() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.told = true
}

// free reports whether the process is neither held nor told to end.
func (p *process) free() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.told && !p.held
}

func (p *process) signal(s syscall.Signal) {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(fmt.Sprintf("chaos: signal %v to %s: %v", s, p.name, err)) // a child of this process can always be signalled
	}
}
