// Package spill keeps values in a temporary file while they are not needed in memory.
//
//	values ──Write──▶ File ──Read──▶ values, a part at a time
package spill

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// Options configures when values are spilled, and where to. With the zero value all values stay in memory.
type Options struct {
	Dir    string // directory of temporary files; "": that of the system
	Memory int64  // memory limit for values in bytes; 0: none
}

// In returns options for files in a directory, and a memory limit. If no file can be created there, as in a read-only file
// system, all values stay in memory.
func In(dir string, memory int64) Options {
	f := New(dir)
	defer f.Close()
	if _, err := f.open(); err != nil {
		return Options{}
	}
	return Options{Dir: dir, Memory: memory}
}

// Applies reports whether values of that many bytes exceed the limit.
func (o Options) Applies(bytes int64) bool { return o.Memory > 0 && bytes > o.Memory }

// File returns a file for values of that many bytes, which the caller closes; nil if they do not exceed the limit.
func (o Options) File(bytes int64) *File {
	if !o.Applies(bytes) {
		return nil
	}
	return New(o.Dir)
}

// File is a temporary file of float64 values. It is created with the first value, and has no name from then on, so that it
// disappears with the process. It is safe for concurrent use.
type File struct {
	dir    string
	mutex  sync.Mutex
	file   *os.File
	named  bool // the system can't remove an open file: Close does
	closed bool
	end    int           // number of values of all places
	free   map[int][]int // freed places, by the number of values
}

// New returns a file in a directory; "" is that of the system for temporary files. The caller closes it.
func New(dir string) *File { return &File{dir: dir, free: map[int][]int{}} }

// Place allocates the place of a number of values.
func (f *File) Place(values int) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if free := f.free[values]; len(free) > 0 {
		f.free[values] = free[1:]
		return free[0]
	}
	f.end += values
	return f.end - values
}

// Free frees a place of a number of values.
func (f *File) Free(at, values int) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.free[values] = append(f.free[values], at)
}

// open returns the file.
func (f *File) open() (*os.File, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	if f.file == nil {
		file, err := os.CreateTemp(f.dir, ".stagewise-spill-")
		if err != nil {
			return nil, err
		}
		f.file, f.named = file, os.Remove(file.Name()) != nil
	}
	return f.file, nil
}

// Write writes values to a place.
func (f *File) Write(at int, values []float64) error {
	file, err := f.open()
	if err == nil {
		_, err = file.WriteAt(bytesOf(values), 8*int64(at))
	}
	if err != nil {
		return fmt.Errorf("spill values that exceed memory: %w", err)
	}
	return nil
}

// Read reads values that were written to a place, or a part of them.
func (f *File) Read(at int, values []float64) error {
	file, err := f.open()
	if err == nil {
		_, err = file.ReadAt(bytesOf(values), 8*int64(at))
	}
	if err != nil {
		return fmt.Errorf("read spilled values: %w", err)
	}
	return nil
}

// Close removes the file. f may be nil.
func (f *File) Close() {
	if f == nil {
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.closed = true
	if f.file == nil {
		return
	}
	f.file.Close()
	if f.named {
		os.Remove(f.file.Name())
	}
	f.file = nil
}

// bytesOf returns the memory of values.
func bytesOf(values []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 8*len(values))
}
