package kafkalog

import "time"

// Wait reports an operation that is being retried because of broker errors.
type Wait struct {
	// What is the operation, such as "append to x[0]".
	What string
	// Since is the duration so far.
	Since time.Duration
	// Err is the latest error. With Over it is the result of the operation, nil if it succeeded.
	Err error
	// Over means that the operation has ended.
	Over bool
}

const (
	// minWaitInterval is the delay of the first report. A change of leader takes less.
	minWaitInterval = time.Second
	// maxWaitInterval is the maximum interval between two reports of one operation.
	maxWaitInterval = time.Minute
)

// reporter reports the waits of one operation.
type reporter struct {
	report func(Wait) // nil: nothing is reported
	what   string

	since    time.Time     // the start of the first failed attempt; zero before that
	next     time.Time     // of the next report
	interval time.Duration // between reports; zero before the first
}

// failed records a failed attempt that started at the given time, and reports the wait if it is due.
func (w *reporter) failed(began time.Time, failure error) {
	if w.report == nil {
		return
	}
	if w.since.IsZero() {
		w.since, w.next = began, began.Add(minWaitInterval)
	}
	now := time.Now()
	if now.Before(w.next) {
		return
	}
	w.interval = min(max(2*w.interval, minWaitInterval), maxWaitInterval)
	w.next = now.Add(w.interval)
	w.report(Wait{What: w.what, Since: now.Sub(w.since), Err: failure})
}

// over reports the end of the operation, if its wait was reported.
func (w *reporter) over(err error) {
	if w.interval > 0 {
		w.report(Wait{What: w.what, Since: time.Since(w.since), Err: err, Over: true})
	}
	*w = reporter{report: w.report, what: w.what}
}
