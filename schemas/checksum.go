package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// MessageChecksum returns the CRC-32C of a message's value, and its timestamp in milliseconds. It identifies the message.
func MessageChecksum(m wire.Message, milliseconds int64) string {
	return fmt.Sprintf("%08x-%x", m.Checksum(), milliseconds)
}
