package pipeline

import (
	"testing"

	"go.uber.org/goleak"
)

// Every goroutine has an end: none is left when the tests are.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
