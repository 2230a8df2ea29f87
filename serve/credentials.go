package serve

import (
	"os"
	"sync"
	"time"
)

// credential is what files say that others replace while the server runs, as certificates that expire. It is safe for concurrent use.
type credential[T any] struct {
	files []string
	read  func() (T, error)

	mutex  sync.Mutex
	value  T
	stamps []stamp // of the files when the value was read
	wrong  error   // why the files that there are now can't be used; nil: they are
}

// stamp changes when a file does.
type stamp struct {
	modified time.Time
	size     int64
}

// newCredential returns a credential of files, of which there may be none. The error is that of read.
func newCredential[T any](read func() (T, error), files ...string) (*credential[T], error) {
	c := &credential[T]{files: files, read: read, stamps: stamps(files)}
	var err error
	c.value, err = read()
	return c, err
}

// get returns what the files say. While they can't be used, as one of two is replaced before the other, it returns what they said before.
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

// trouble returns why the files that there are now can't be used; nil if they can.
func (c *credential[T]) trouble() error {
	c.get()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.wrong
}

// stamps returns the stamps of files; those that are not there have zero values.
func stamps(files []string) []stamp {
	list := make([]stamp, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			list[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return list
}
