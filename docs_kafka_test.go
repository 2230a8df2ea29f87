//go:build kafka

package stagewise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All blocks of the page about people's own data work as they are written, but for the address of the brokers: also those in Python, and
// those about a topic.
func TestKafkaYourOwnData(t *testing.T) {
	for _, need := range []string{"STAGEWISE_KAFKA=make kafka-up", "STAGEWISE_PYTHON=scripts/python.sh"} {
		if name, by, _ := strings.Cut(need, "="); os.Getenv(name) == "" {
			t.Fatalf("%s is not set: run %s, which prints the value", name, by)
		}
	}
	folder := runPage(t, strings.ReplaceAll(read(t, "docs/your-own-data.md"), "localhost:9092", os.Getenv("STAGEWISE_KAFKA")), os.Getenv("STAGEWISE_PYTHON"))
	checkKinds(t, filepath.Join(folder, "answers.csv"), 4, "label", "rose", "iris")
	checkKinds(t, filepath.Join(folder, "predictions.csv"), 0, "label", "rose", "iris")
}
