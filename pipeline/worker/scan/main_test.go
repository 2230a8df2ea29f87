package scan

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine has an end: none is left when the tests are done.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
