package visit

import (
	"math"
	"os"
)

// available returns the bytes of memory that the machine can give to processes without swapping.
func available() (int64, error) {
	kilobytes, err := number(os.DirFS("/"), "proc/meminfo", "MemAvailable:")
	return min(kilobytes, math.MaxInt64>>10) << 10, err
}
