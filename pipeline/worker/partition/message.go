package partition

import (
	"hash/crc32"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Message is an accepted examples message as read from the topic.
type Message struct {
	Offset int64
	wire.Message
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns a hash of the message's position, number of rows and bytes. If a later visit reads other bytes or
// another number of rows, the checksum differs.
func (m Message) Checksum(partition, rows int) uint64 {
	return wire.Hash(uint64(partition), uint64(m.Offset), uint64(rows), uint64(crc32.Checksum(m.Value, castagnoli)))
}

// ValueBytes returns the total length of the values of messages.
func ValueBytes(messages []Message) (bytes int64) {
	for _, m := range messages {
		bytes += int64(len(m.Value))
	}
	return bytes
}
