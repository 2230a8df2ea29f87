package partition

import "github.com/stagewise/stagewise/schemas/wire"

// Message is an accepted examples message as read from the topic.
type Message struct {
	Offset int64
	wire.Message
}

// Checksum returns a hash of the message's position, number of rows and bytes. If a later visit reads other bytes or
// another number of rows, the checksum differs.
func (m Message) Checksum(partition, rows int) uint64 {
	return wire.Hash(uint64(partition), uint64(m.Offset), uint64(rows), uint64(m.Message.Checksum()))
}

// ValueBytes returns the total length of the values of messages.
func ValueBytes(messages []Message) (bytes int64) {
	for _, m := range messages {
		bytes += int64(len(m.Value))
	}
	return bytes
}
