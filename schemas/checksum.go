package schemas

import (
	"fmt"
	"hash/crc32"
)

// MessageChecksum returns the CRC-32C of a value and the timestamp of its message in milliseconds. It identifies the message.
func MessageChecksum(value []byte, milliseconds int64) string {
	return fmt.Sprintf("%08x-%x", crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)), milliseconds)
}
