package visit

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine is left when the tests are done. In some tests a segment waits for another one, on any machine.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	goleak.VerifyTestMain(m)
}
