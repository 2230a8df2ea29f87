package kafkalog

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogSurvivesClose(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	for n := range 3 {
		l := must(Open(ctx, Options{DataDir: dir}))(t)
		if !l.Embedded() || len(l.Addr()) != 0 {
			t.Errorf("embedded %v at %v", l.Embedded(), l.Addr())
		}
		noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 2, Config: map[string]string{"retention.ms": "-1"}}))
		if base, err := l.Append(ctx, "t", 0, numbered(n, 1000)); base != int64(n) || err != nil {
			t.Fatalf("append %d: %d, %v", n, base, err)
		}
		if got, err := read(t, l, "t", 0, int64(n+1)); err != io.EOF || !slices.Equal(texts(got), numbers(0, n+1)) {
			t.Fatalf("%v, %v", texts(got), err)
		}
		if config, err := l.Configs(ctx, "t"); err != nil || config["t"]["retention.ms"] != "-1" {
			t.Errorf("configuration %v, %v", config, err)
		}
		noError(t, l.Close())
		noError(t, l.Close())
	}
}

// A second process gets an error with the id of the first after five seconds, or the directory if the first one ends
// sooner.
func TestDataDirHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	l := openDir(t, dir)
	synctest.Test(t, func(t *testing.T) {
		began, said := time.Now(), []Wait(nil)
		_, err := Open(t.Context(), Options{DataDir: dir, Waiting: func(w Wait) { said = append(said, w) }})
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() || locked.Dir != dir {
			t.Fatalf("second owner: %v", err)
		}
		if !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
			t.Errorf("%q does not name the owner", err)
		}
		if waited := time.Since(began); waited != 5*time.Second || len(said) < 2 || said[0].Over || !said[len(said)-1].Over {
			t.Errorf("after %v, with the reports %+v", waited, said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Repair(ctx, dir); !errors.As(err, new(*LockedError)) || time.Since(began) != 6*time.Second {
			t.Errorf("a repair that is cancelled: %v after %v", err, time.Since(began))
		}
	})
	next := must(Open(testContext(t), Options{DataDir: dir, Waiting: func(w Wait) {
		if !w.Over {
			noError(t, l.Close())
		}
	}}))(t)
	noError(t, next.Close())
}

func TestOpenWithoutBrokersOrDirectory(t *testing.T) {
	if _, err := Open(testContext(t), Options{}); err == nil {
		t.Error("a log without brokers and directory was opened")
	}
	file := filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(file, nil, 0o644))
	if _, err := Open(testContext(t), Options{DataDir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("data directory that is a file: %v", err)
	}
}
