// Package coverage describes the messages and rows of a topic that a sum includes: spans of offsets, accepted messages
// with a checksum, skipped messages with the reason, and forgotten rows.
//
//	Span, Forgotten ──Union, Merge──▶ Coverage of an Increment
package coverage

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Coverage describes the messages that a sum includes. The zero value covers nothing.
type Coverage struct {
	Spans    Spans `json:"spans"`    // offsets of the examples topic
	Messages int64 `json:"messages"` // number of accepted messages
	Rows     int64 `json:"rows"`     // number of rows in accepted messages
	// Checksum is the sum of the hashes of all accepted messages, modulo 2^64. It does not depend on their order.
	Checksum uint64 `json:"checksum"`
}

// Summary is a coverage with the digest of its spans: those of ten thousand partitions do not fit into a header.
type Summary struct {
	Messages int64       `json:"messages"`
	Rows     int64       `json:"rows"`
	Checksum uint64      `json:"checksum"`
	Spans    wire.Digest `json:"spans"`
}

// Summary returns the summary.
func (c Coverage) Summary() Summary { return Summary{c.Messages, c.Rows, c.Checksum, c.Spans.Digest()} }

// Of returns the coverage, given its spans.
func (s Summary) Of(spans Spans) Coverage { return Coverage{spans, s.Messages, s.Rows, s.Checksum} }

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

// Merge adds o. If the two share offsets, it returns an error and does not modify c.
func (c *Coverage) Merge(o Coverage) error {
	spans, err := c.Spans.Union(o.Spans)
	if err != nil {
		return err
	}
	*c = Coverage{spans, c.Messages + o.Messages, c.Rows + o.Rows, c.Checksum + o.Checksum}
	return nil
}

// Mark is the last message of a partition that a chain has processed. An offset alone does not identify a message: after
// a topic was truncated or recreated, another message may have the same offset.
type Mark struct {
	Partition int    `json:"partition"` // partition number
	Offset    int64  `json:"offset"`    // message offset
	Checksum  string `json:"checksum"`  // checksum of the value and timestamp: see MessageChecksum
}

// Marks returns the marks of a chain after a run that has processed more messages: for each partition the mark with the
// highest offset. Both lists, and the result, are in partition order with one mark per partition.
func Marks(before, more []Mark) []Mark {
	after := slices.Concat(more, before)
	slices.SortStableFunc(after, func(a, b Mark) int { return cmp.Or(a.Partition-b.Partition, cmp.Compare(b.Offset, a.Offset)) })
	return slices.CompactFunc(after, func(a, b Mark) bool { return a.Partition == b.Partition })
}

// BadMessages counts the unusable messages with new rows, and describes the first of them. The zero value has no messages.
type BadMessages struct {
	Messages  int64  `json:"messages"`  // number of unusable messages
	Of        int64  `json:"of"`        // number of all messages, usable or not
	Partition int    `json:"partition"` // partition of the first unusable message
	Offset    int64  `json:"offset"`    // offset of the first unusable message
	Reason    string `json:"reason"`    // why the first unusable message is unusable
}

// Usable adds a number of usable messages.
func (b *BadMessages) Usable(n int) { b.Of += int64(n) }

// Bad adds an unusable message. Messages of a partition must be added in offset order.
func (b *BadMessages) Bad(partition int, offset int64, reason string) {
	b.Merge(BadMessages{1, 1, partition, offset, reason})
}

// Merge adds other messages. The first unusable message is that of the lowest partition.
func (b *BadMessages) Merge(o BadMessages) {
	if o.Messages > 0 && (b.Messages == 0 || o.Partition < b.Partition) {
		b.Partition, b.Offset, b.Reason = o.Partition, o.Offset, o.Reason
	}
	b.Messages, b.Of = b.Messages+o.Messages, b.Of+o.Of
}

// Most reports whether most of the messages are unusable.
func (b *BadMessages) Most() bool { return 2*b.Messages > b.Of }

// PassedOver counts the messages and rows of the examples topic that a run leaves out, by reason. It has no zero counts. The zero value is
// empty and read-only. Unusable messages are not counted here: they are in quarantine.
type PassedOver map[PassOverReason]int64

// PassOverReason is the reason why a run skips a message.
type PassOverReason string

// The reasons: [PassOverReasons] has their meanings.
const (
	OtherProducer PassOverReason = "other_producer"
	OtherSource   PassOverReason = "other_source"
	Unsealed      PassOverReason = "unsealed"
	Removed       PassOverReason = "removed"
	Repeated      PassOverReason = "repeated"
	LeftOut       PassOverReason = "left_out" // also if another run of the chain adds the rows
	Expired       PassOverReason = "expired"
	Expiring      PassOverReason = "expiring"
	Outside       PassOverReason = "outside"
	ForgottenRow  PassOverReason = "forgotten" // rows with weight 0 of included messages
	Overflowing   PassOverReason = "overflow"  // rows of included messages
	NoLabel       PassOverReason = "no_label"  // rows of included messages
	Missing       PassOverReason = "missing"   // although retention has not deleted the message
)

// PassOverMeaning describes a reason to people.
type PassOverMeaning struct {
	Reason  PassOverReason
	What    string // unit: message or row
	Meaning string
}

// PassOverReasons returns the reasons, each with its unit and its meaning, in the order of the documentation.
func PassOverReasons() []PassOverMeaning {
	return []PassOverMeaning{
		{OtherProducer, "message", "from other producers (the run reads files)"},
		{OtherSource, "message", "from other files or an interrupted ingest"},
		{Unsealed, "message", "from an unfinished ingest"},
		{Removed, "message", "from removed sources"},
		{Repeated, "message", "that are duplicates"},
		{LeftOut, "message", "excluded by an earlier version of the chain"},
		{Expired, "message", "deleted by retention before the run started"},
		{Expiring, "message", "that retention may delete before the run ends"},
		{Outside, "message", "outside examples.from and examples.to"},
		{ForgottenRow, "row", "that were forgotten"},
		{Overflowing, "row", "quarantined because of overflow"},
		{NoLabel, "row", "without a label"},
		{Missing, "message", "missing from a source"},
	}
}

// Add adds the counts of o.
func (p *PassedOver) Add(o PassedOver) {
	for reason, n := range o {
		p.Count(reason, n)
	}
}

// Count adds n messages that are left out for a reason.
func (p *PassedOver) Count(reason PassOverReason, n int64) {
	if n == 0 {
		return
	}
	if *p == nil {
		*p = PassedOver{}
	}
	(*p)[reason] += n
}

// MarshalJSON returns the counts as a JSON object, even if there are none.
func (p PassedOver) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[PassOverReason]int64(p))
}

// UnmarshalJSON is the inverse of [PassedOver.MarshalJSON].
func (p *PassedOver) UnmarshalJSON(text []byte) error {
	var counts map[PassOverReason]int64
	if err := json.Unmarshal(text, &counts); err != nil {
		return err
	}
	if *p = counts; len(counts) == 0 {
		*p = nil
	}
	return nil
}
