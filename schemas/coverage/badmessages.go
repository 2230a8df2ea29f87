package coverage

// BadMessages counts the unusable messages with new rows, and describes the first of them. The zero value is of no message.
type BadMessages struct {
	Messages  int64  `json:"messages"`  // number of unusable messages
	Of        int64  `json:"of"`        // number of all messages, usable or not
	Partition int    `json:"partition"` // partition of the first unusable message
	Offset    int64  `json:"offset"`    // offset of the first unusable message
	Reason    string `json:"reason"`    // why the first unusable message is unusable
}

// Usable adds a number of messages that can be used.
func (b *BadMessages) Usable(n int) { b.Of += int64(n) }

// Bad adds a message that can't be used. Of one partition they come in the order of their offsets.
func (b *BadMessages) Bad(partition int, offset int64, reason string) {
	b.Merge(BadMessages{1, 1, partition, offset, reason})
}

// Merge adds other messages, those of a lower partition first.
func (b *BadMessages) Merge(o BadMessages) {
	if o.Messages > 0 && (b.Messages == 0 || o.Partition < b.Partition) {
		b.Partition, b.Offset, b.Reason = o.Partition, o.Offset, o.Reason
	}
	b.Messages, b.Of = b.Messages+o.Messages, b.Of+o.Of
}

// Most reports whether most of the messages can't be used.
func (b *BadMessages) Most() bool { return 2*b.Messages > b.Of }
