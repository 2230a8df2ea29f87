package pipeline

import "sync"

// Serialised lets one goroutine at a time record: what several things record at
// once comes one by one.
func Serialised(to Recorder) Recorder { return &serialised{to: to} }

// serialised lets one goroutine at a time record.
type serialised struct {
	mutex sync.Mutex
	to    Recorder
}

func (s *serialised) Record(e Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.to.Record(e)
}
