package scan

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine is left when the tests are done.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
