//go:build unix

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// journal records what the campaign does, with the time of day, for comparison with the logs of the processes.
type journal struct {
	mutex sync.Mutex
	to    io.Writer
}

func (j *journal) note(format string, values ...any) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	fmt.Fprintf(j.to, time.Now().UTC().Format("15:04:05.000")+" "+format+"\n", values...)
}
