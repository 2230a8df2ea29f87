//go:build kafka

package stagewise

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
)

// All blocks of the page about a topic of JSON work as they are written.
func TestKafkaJSONTopic(t *testing.T) { runKafkaPage(t, "docs/json-topic.md") }

// All blocks of the page about producers work as they are written, those in Python too. The program in Go is built from its file.
func TestKafkaProducers(t *testing.T) {
	folder := runKafkaPage(t, "docs/producers.md")
	var report schemas.Report
	assert.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(folder, "orchard.json"))), &report))
	all := report.Rows + report.Splits["holdout"].Rows
	assert.True(t, all == 600 && report.TrainError == 0, "%d rows, train error %v, expected 600 rows without errors", all, report.TrainError)
	checkKinds(t, filepath.Join(folder, "predictions.csv"), 0, "label", "pear", "apple")
}

// runKafkaPage is runPage with the brokers and the Python of the test.
func runKafkaPage(t *testing.T, page string) (folder string) {
	t.Helper()
	for _, need := range []string{"STAGEWISE_KAFKA=make kafka-up", "STAGEWISE_PYTHON=scripts/python.sh"} {
		name, by, _ := strings.Cut(need, "=")
		assert.Need(t, os.Getenv(name) != "", "%s is not set: run %s, which prints the value", name, by)
	}
	return runPage(t, strings.ReplaceAll(read(t, page), "localhost:9092", os.Getenv("STAGEWISE_KAFKA")), os.Getenv("STAGEWISE_PYTHON"))
}
