package pipeline

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/internal/kernel"
)

// TestMain fails if a goroutine is left when all tests have ended. STAGEWISE_VECTOR chooses the vector instructions of
// all tests, as it does for the program: `make test` has those of the machine.
func TestMain(m *testing.M) {
	if err := kernel.UseVector(os.Getenv("STAGEWISE_VECTOR")); err != nil {
		fmt.Fprintln(os.Stderr, "STAGEWISE_VECTOR:", err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(m)
}
