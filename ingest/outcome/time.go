package outcome

import "time"

// maxTime is a timestamp beyond all valid ones: larger values are due to a clock in other units.
const maxTime = 32503680000000 // the year 3000

// TimeOf returns the timestamp of a message in milliseconds since 1970; [Never] if it has none.
func TimeOf(t time.Time) int64 {
	if t := t.UnixMilli(); t > 0 && t < maxTime {
		return t
	}
	return Never
}
