package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockPatience is how long a process waits for a data directory that another one uses, which may be ending.
	lockPatience = 5 * time.Second
	// lockInterval is the interval between attempts: the operating system does not notify of a released lock.
	lockInterval = 50 * time.Millisecond
)

// lockDir locks a data directory as lockNow does. While another process has locked it, it tries again until lockPatience or
// the context ends, and calls locked with the time of its first attempt.
func lockDir(ctx context.Context, dir string, locked func(since time.Time, err error)) (lock *flock.Flock, made []string, err error) {
	for began := time.Now(); ; {
		lock, made, err = lockNow(dir)
		if !errors.As(err, new(*LockedError)) || time.Since(began) >= lockPatience {
			return lock, made, err
		}
		locked(began, err)
		select {
		case <-time.After(lockInterval):
		case <-ctx.Done():
			return nil, nil, errors.Join(err, context.Cause(ctx))
		}
	}
}

// lockNow locks a data directory and writes the process id into the lock file. The operating system releases the lock when
// a process dies, so a leftover lock file is harmless. made are the directories that it created, each before its parent.
func lockNow(dir string) (lock *flock.Flock, made []string, err error) {
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, path)
	}
	if err := makeDir(dir); err != nil {
		return nil, nil, fmt.Errorf("make data directory: %w", err)
	}
	lock = flock.New(filepath.Join(dir, "lock"))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !locked {
		owner, _ := os.ReadFile(lock.Path())
		first, address, _ := strings.Cut(string(owner), "\n")
		pid, _ := strconv.Atoi(first)
		return nil, nil, errors.Join(&LockedError{Dir: dir, PID: pid, Listen: address}, lock.Close())
	}
	if !isThere(lock) { // the previous process has removed the directory
		return nil, nil, errors.Join(&LockedError{Dir: dir}, lock.Unlock())
	}
	if err := sign(lock, ""); err != nil {
		return nil, nil, errors.Join(err, unlock(lock))
	}
	return lock, made, nil
}

// sign writes the process id into a locked file, and in a second line the address at which its broker listens, if any.
func sign(lock *flock.Flock, address string) error {
	text := strconv.Itoa(os.Getpid())
	if address != "" {
		text += "\n" + address
	}
	if err := os.WriteFile(lock.Path(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("lock data directory %s: %w", filepath.Dir(lock.Path()), err)
	}
	return nil
}

// makeDir creates a data directory that is readable only by its owner, because it contains examples. It keeps the mode of
// an existing one.
func makeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// isThere reports whether the locked file is the one that other processes would lock.
func isThere(lock *flock.Flock) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(locked, there)
}

// unlock empties the lock file but keeps it: if it were removed, two processes could lock two files of the same name.
func unlock(lock *flock.Flock) error {
	return errors.Join(os.Truncate(lock.Path(), 0), lock.Unlock())
}
