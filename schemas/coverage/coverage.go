package coverage

import "slices"

// Coverage describes the messages that a sum includes. The zero value covers nothing.
type Coverage struct {
	Spans    Spans `json:"spans"`    // offsets of the examples topic
	Messages int64 `json:"messages"` // number of accepted messages
	Rows     int64 `json:"rows"`     // number of rows in accepted messages
	// Checksum is the sum of the hashes of all accepted messages, modulo 2^64. It does not depend on their order.
	Checksum uint64 `json:"checksum"`
}

// Same reports whether c and o cover the same accepted messages.
func (c Coverage) Same(o Coverage) bool {
	return slices.Equal(c.Spans, o.Spans) && c.Messages == o.Messages && c.Rows == o.Rows && c.Checksum == o.Checksum
}

// Count adds one accepted message with its number of rows and its checksum.
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
