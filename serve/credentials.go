package serve

import (
	"os"
	"sync"
	"time"
)

// credential is the content of files that are replaced while the server runs, such as expiring certificates. It is safe
// for concurrent use.
type credential[T any] struct {
	files []string
	read  func() (T, error)

	mutex  sync.Mutex
	value  T
	stamps []stamp // of the files at the last read
	wrong  error   // error of the current files; nil: they are valid
}

// stamp identifies the state of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// newCredential returns a credential from files, possibly none. The error is that of read.
func newCredential[T any](read func() (T, error), files ...string) (*credential[T], error) {
	c := &credential[T]{files: files, read: read, stamps: stamps(files)}
	var err error
	c.value, err = read()
	return c, err
}

// get returns the content of the files. While they are invalid, as when one of two is replaced before the other, it
// returns the previous content.
func (c *credential[T]) get() T {
	if len(c.files) == 0 {
		return c.value
	}
	now := stamps(c.files)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for i, s := range now {
		if s == c.stamps[i] {
			continue
		}
		var value T
		if value, c.wrong = c.read(); c.wrong == nil {
			c.value, c.stamps = value, now
		}
		break
	}
	return c.value
}

// trouble returns the error of the current files; nil if they are valid.
func (c *credential[T]) trouble() error {
	c.get()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.wrong
}

// stamps returns the stamps of files; zero for missing ones.
func stamps(files []string) []stamp {
	list := make([]stamp, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			list[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return list
}
