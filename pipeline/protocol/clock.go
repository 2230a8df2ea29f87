package protocol

import "time"

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
