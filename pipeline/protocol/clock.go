package protocol

import (
	"context"
	"time"
)

// Clock tells the time. The zero value is the system clock.
type Clock func() time.Time

// Now returns the time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}

// Since returns the time elapsed since a time.
func (c Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until returns the duration until a time.
func (c Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// A role that waits for another one periodically checks whether the log has lost its own records, or has unread ones:
// first after MinPatience, then with the interval doubled each time, up to MaxPatience.
const (
	MinPatience = 30 * time.Second
	MaxPatience = 5 * time.Minute
)

// Patience returns the wait that follows a wait without a message.
func Patience(wait time.Duration) time.Duration { return min(2*wait, MaxPatience) }

// Pause waits for a duration, or until the context ends, and then returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
