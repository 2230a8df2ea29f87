package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// lockDir locks a data directory and writes the process id into the lock file. The operating system releases the lock when
// a process dies, so a leftover lock file is harmless. made are the directories that it created, each before its parent.
func lockDir(dir string) (lock *flock.Flock, made []string, err error) {
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
		pid, _ := strconv.Atoi(strings.TrimSpace(string(owner)))
		return nil, nil, &LockedError{Dir: dir, PID: pid}
	}
	if !isThere(lock) { // the previous process has removed the directory
		return nil, nil, errors.Join(&LockedError{Dir: dir}, lock.Unlock())
	}
	if err := os.WriteFile(lock.Path(), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lock data directory %s: %w", dir, err), unlock(lock))
	}
	return lock, made, nil
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
