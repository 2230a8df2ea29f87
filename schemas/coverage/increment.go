package coverage

import "fmt"

// Maximum bytes of JSON of an increment of a window: of its own, and of each partition and each span.
const (
	incrementBytes = 512
	coverageBytes  = 112
	spanBytes      = 72
)

// Increment describes the examples added by one run of a chain.
type Increment struct {
	Number int     `json:"number"` // number of the run that added it
	Weight float64 `json:"weight"` // w: 1, reduced by decay
	// Covered is the accepted messages of the increment, by partition in order. In a full run only the spans are known. A partition has
	// several entries if messages between them came with another increment: those of a source that was sealed late.
	Covered []Coverage `json:"covered"`
	// Skipped are the messages in the spans that are not included.
	Skipped Spans `json:"skipped,omitempty"`
	// Uncounted is true if only the spans are known: the record of the accepted messages is gone, so a full run determines them again.
	Uncounted bool `json:"uncounted,omitempty"`
	// Forgotten is the number of rows in Covered with weight 0, because they were forgotten.
	Forgotten int64 `json:"forgotten,omitempty"`
	// Joined is the number of increments that were joined into this one; 0: a single increment.
	Joined int `json:"joined,omitempty"`
	// Until is the timestamp of the newest message, in milliseconds since 1970; 0: unknown.
	Until int64 `json:"until,omitempty"`
}

// Size returns the number of runs whose additions the increment contains.
func (c *Increment) Size() int { return max(c.Joined, 1) }

// Spans returns the spans of an increment in all partitions.
func (c *Increment) Spans() (spans Spans) {
	for _, covered := range c.Covered {
		spans = append(spans, covered.Spans...)
	}
	return spans
}

// On returns the part of an increment in a partition.
func (c *Increment) On(partition int) (Coverage, bool) {
	for _, covered := range c.Covered {
		if len(covered.Spans) > 0 && covered.Spans[0].Partition == partition {
			return covered, true
		}
	}
	return Coverage{}, false
}

// Skips reports whether a message is not included.
func (c *Increment) Skips(partition int, offset int64) bool { return c.Skipped.Has(partition, offset) }

// Rows returns the number of accepted rows of all splits.
func (c *Increment) Rows() (rows int64) {
	for _, covered := range c.Covered {
		rows += covered.Rows
	}
	return rows
}

// Learnt returns the number of accepted rows of all splits that are not forgotten.
func (c *Increment) Learnt() int64 { return c.Rows() - c.Forgotten }

// Check returns an error for impossible values.
func (c *Increment) Check() error {
	for _, covered := range c.Covered {
		if err := Check(covered.Spans); err != nil {
			return fmt.Errorf("increment %d: %w", c.Number, err)
		}
		if n := len(covered.Spans.Hulls()); n != 1 {
			return fmt.Errorf("increment %d: spans of %d partitions, expected those of one", c.Number, n)
		}
	}
	if !(c.Weight >= 0 && c.Weight <= 1) {
		return fmt.Errorf("increment %d: weight %g, expected one from 0 to 1", c.Number, c.Weight)
	}
	return nil
}

// Bytes returns the maximum length of the JSON of a window's increment.
func (c *Increment) Bytes() int64 {
	n := incrementBytes + spanBytes*len(c.Skipped)
	for i := range c.Covered {
		n += coverageBytes + spanBytes*len(c.Covered[i].Spans)
	}
	return int64(n)
}
