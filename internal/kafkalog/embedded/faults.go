package embedded

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// faults records the last file error of the embedded broker. kfake answers a failed write with an unknown error code. The
// cause, such as a full disk, is only in its log.
type faults struct {
	mutex sync.Mutex
	last  *fs.PathError // nil: none
}

// Logf is the logging function of kfake.
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

// Explain returns the cause of a write that the broker has answered with an unknown error.
func (b *Broker) Explain(err error) error {
	b.faults.mutex.Lock()
	defer b.faults.mutex.Unlock()
	if b.faults.last == nil {
		return err
	}
	return &WriteError{Path: b.faults.last.Path, Err: b.faults.last.Err}
}
