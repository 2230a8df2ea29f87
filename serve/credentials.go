package serve

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// credential is the content of files that are replaced while the server runs, such as expiring certificates. It is safe
// for concurrent use.
type credential[T any] struct {
	files []string
	read  func() (T, error)

	// notice is called with messages for the operator.
	notice  func(text string)
	expires func(T) time.Time // nil: never

	mutex  sync.Mutex
	value  T
	told   bool    // that the value has expired
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
	c := &credential[T]{files: files, read: read, stamps: stamps(files), notice: func(string) {}}
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
	if !slices.Equal(now, c.stamps) { // also of invalid files, which are not read again until they change
		c.stamps = now
		c.reread()
	}
	if c.expires != nil && !c.told && time.Now().After(c.expires(c.value)) {
		c.told = true
		c.notice(fmt.Sprintf("%s expired at %s: replace it", c.files[0], c.expires(c.value).UTC().Format(time.RFC3339)))
	}
	return c.value
}

// reread reads the files after a change.
func (c *credential[T]) reread() {
	was := c.wrong
	value, err := c.read()
	if c.wrong = err; err != nil {
		c.notice(fmt.Sprintf("the previous credentials stay in use: %v", err))
		return
	}
	if c.value, c.told = value, false; was != nil {
		c.notice(fmt.Sprintf("%s can be used again", c.files[0]))
	}
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
