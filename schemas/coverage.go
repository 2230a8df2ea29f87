package schemas

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Coverage is what a sum was taken over. The zero value covers nothing.
type Coverage struct {
	Spans    Spans `json:"spans"`
	Messages int64 `json:"messages"` // accepted ones
	Rows     int64 `json:"rows"`
	// Checksum is the sum modulo 2^64 of a hash of each accepted message, so it
	// does not depend on their order.
	Checksum uint64 `json:"checksum"`
}

// Same reports whether two coverages are of the same accepted messages.
func (c Coverage) Same(o Coverage) bool {
	return slices.Equal(c.Spans, o.Spans) && c.Messages == o.Messages && c.Rows == o.Rows && c.Checksum == o.Checksum
}

// Count adds one accepted message.
func (c *Coverage) Count(rows int, checksum uint64) {
	c.Messages++
	c.Rows += int64(rows)
	c.Checksum += checksum
}

// Merge adds o. If the two share offsets it returns an *[OverlapError] and leaves c as it was.
func (c *Coverage) Merge(o Coverage) error {
	spans, err := c.Spans.Union(o.Spans)
	if err != nil {
		return err
	}
	*c = Coverage{spans, c.Messages + o.Messages, c.Rows + o.Rows, c.Checksum + o.Checksum}
	return nil
}

// text is the coverage as a note and as a text tensor carry it.
func (c Coverage) text() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for a coverage: %v", err))
	}
	return string(text)
}

// parseCoverage is the inverse of text.
func parseCoverage(text string) (c Coverage, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("coverage %s: %w", quote(text), err)
	}
	return c, nil
}

// noteCovered is the note of a record of sums that says what they cover.
const noteCovered = "covered"

func (c Coverage) note() Header { return Header{noteCovered, c.text()} }
