package embedded

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// faults keeps the last error of the files of the embedded broker. kfake answers a write that its files refuse with the error code of
// an unknown error. What refused it, such as a full disk, is in its log only.
type faults struct {
	mutex sync.Mutex
	last  *fs.PathError // nil: none
}

// Logf is called by kfake with a line of its log.
func (f *faults) Logf(level kfake.LogLevel, _ string, values ...any) {
	if level > kfake.LogLevelWarn {
		return
	}
	for _, v := range values {
		if err, ok := v.(error); ok {
			if fault, ok := errors.AsType[*fs.PathError](err); ok {
				f.mutex.Lock()
				f.last = fault
				f.mutex.Unlock()
			}
		}
	}
}

// Explain returns the error of a write that the broker has answered with an unknown error.
func (b *Broker) Explain(err error) error {
	b.faults.mutex.Lock()
	defer b.faults.mutex.Unlock()
	if b.faults.last == nil {
		return err
	}
	return &WriteError{Path: b.faults.last.Path, Err: b.faults.last.Err}
}
