package visit

import (
	"errors"

	"golang.org/x/sys/unix"
)

// available returns the bytes of memory that the machine can give to processes without swapping.
func available() (int64, error) {
	bytes, err := unix.SysctlUint64("hw.memsize")
	percent, failed := unix.SysctlUint32("kern.memorystatus_level")
	return int64(bytes / 100 * uint64(percent)), errors.Join(err, failed)
}
