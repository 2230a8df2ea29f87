package coverage

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
