package kafkalog

import "time"

// Wait is an operation that trouble with the brokers holds up.
type Wait struct {
	What  string        // "append to x[0]"
	Since time.Duration // how long by now
	Err   error         // the newest trouble; when it is over, how it ended: nil when all is well
	Over  bool
}

const (
	// firstWait is how much waiting is not worth a word: that a leader moves takes less.
	firstWait = time.Second
	// lastWait is how often somebody who reads the log wants to be told of the same thing.
	lastWait = time.Minute
)

// waiting tells of the waits of one operation.
type waiting struct {
	tell func(Wait) // nil: nobody listens
	what string

	since    time.Time // when the first attempt began that failed; zero before that
	next     time.Time
	interval time.Duration // zero until something was told
}

// failed takes an attempt that began at a time and ended in trouble.
func (w *waiting) failed(began time.Time, trouble error) {
	if w.tell == nil {
		return
	}
	if w.since.IsZero() {
		w.since, w.next = began, began.Add(firstWait)
	}
	now := time.Now()
	if now.Before(w.next) {
		return
	}
	w.interval = min(max(2*w.interval, firstWait), lastWait)
	w.next = now.Add(w.interval)
	w.tell(Wait{What: w.what, Since: now.Sub(w.since), Err: trouble})
}

// over takes the end of the operation.
func (w *waiting) over(err error) {
	if w.interval > 0 {
		w.tell(Wait{What: w.what, Since: time.Since(w.since), Err: err, Over: true})
	}
}
