//go:build unix

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// shell returns a fleet whose processes run a shell script.
func shell(t *testing.T, script string) *fleet {
	t.Helper()
	folder := t.TempDir()
	program := folder + "/program"
	arrowtest.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	f := newFleet(folder, program, nil)
	t.Cleanup(f.close)
	return f
}

func started(t *testing.T, f *fleet) *process {
	t.Helper()
	arrowtest.NoError(t, f.start(worker))
	all := f.all(worker)
	return all[len(all)-1]
}

func TestProcessesThatEndOnTheirOwnAreReported(t *testing.T) {
	f := shell(t, "exit 3")
	arrowtest.NoError(t, f.start(worker))
	if p := <-f.unexpected; p.err == nil || len(f.all(worker)) != 0 {
		t.Errorf("%v, %d are left", p.err, len(f.all(worker)))
	}
}

// A held process is not taken as a target, can be released, and can be killed while it is held.
func TestHeldProcesses(t *testing.T) {
	f := shell(t, "while :; do :; done")
	p := started(t, f)
	p.hold()
	if f.take(worker, 0) != nil {
		t.Error("take returns a held process")
	}
	p.release()
	if f.take(worker, 0) != p {
		t.Error("take does not return a released process")
	}
	p.hold()
	f.kill(p)
	p.release() // the process has ended
	if len(f.unexpected) != 0 {
		t.Error("a killed process is reported")
	}
}

func TestLeaving(t *testing.T) {
	for script, wrong := range map[string]string{
		"trap 'exit 0' TERM; echo ready; while :; do :; done": "",
		"trap 'exit 4' TERM; echo ready; while :; do :; done": "exit status 4",
	} {
		f := shell(t, script)
		p := started(t, f)
		for ready := false; !ready; {
			content := arrowtest.Must(os.ReadFile(p.log))(t)
			ready = len(content) > 0
		}
		err := f.leave(p)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, expected %q", script, err, wrong)
		}
	}
}
