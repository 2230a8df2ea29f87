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

// leaveTime is how long a process may take to end after SIGTERM: what orchestrators grant at least before they kill.
const leaveTime = 10 * time.Second

// role is what a process does, and the first part of its name.
type role string

const (
	worker    role = "worker"
	solver    role = "solver"
	submitter role = "submitter"
)

// process is one process of the program under test.
type process struct {
	role    role
	name    string // worker-3
	log     string // file with all that it writes
	command *exec.Cmd
	ended   chan struct{} // closed when it has
	err     error         // how, once it has

	mutex sync.Mutex
	told  bool // to end: what becomes of it is no surprise
	held  bool // by SIGSTOP
}

// launch starts a process whose output goes to a file of its name. ended is called when it has ended, with asked telling
// whether it was told to.
func launch(folder string, r role, number int, program string, args []string, ended func(p *process, asked bool)) (*process, error) {
	name := fmt.Sprintf("%s-%d", r, number)
	p := &process{role: r, name: name, log: filepath.Join(folder, name+".log"), ended: make(chan struct{})}
	file, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	p.command = exec.Command(program, args...)
	p.command.Stdout, p.command.Stderr = file, file
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of the terminal's Ctrl-C
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

// kill ends it at once, also when it is held.
func (p *process) kill() {
	p.tell()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// leave asks it to end, and says what is wrong with how it did.
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
		p.signal(syscall.SIGQUIT) // has the Go runtime write where each goroutine is
		select {
		case <-p.ended:
		case <-time.After(time.Second):
			p.kill()
		}
		return fmt.Errorf("%s runs %v after SIGTERM, see %s", p.name, leaveTime, p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w %v after SIGTERM, see %s", p.name, p.err, time.Since(began).Round(time.Millisecond), p.log)
	}
	return nil
}

// hold stops it from running, until release. One that has ended meanwhile is none the worse.
func (p *process) hold() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.held = true
	p.signal(syscall.SIGSTOP)
}

func (p *process) release() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.held {
		p.held = false
		p.signal(syscall.SIGCONT)
	}
}

func (p *process) tell() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.told = true
}

// free tells whether it runs and nothing has been done to it.
func (p *process) free() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return !p.told && !p.held
}

func (p *process) signal(s syscall.Signal) {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(fmt.Sprintf("chaos: signal %v to %s: %v", s, p.name, err)) // it is a child of ours
	}
}
