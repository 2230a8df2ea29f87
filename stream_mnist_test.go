//go:build mnist

package stagewise

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/pipeline"
)

// make stream has one alarm, in the three versions after the labels change, and the errors of the last versions are low again.
func TestMNISTStream(t *testing.T) {
	command := exec.CommandContext(t.Context(), "make", "stream")
	command.Env = append(os.Environ(), "MNIST_DIR="+os.Getenv("STAGEWISE_MNIST"))
	out, err := command.CombinedOutput()
	assert.Need(t, err == nil, "%v\n%s", err, out)
	var report pipeline.Retraining
	assert.NoError(t, json.Unmarshal([]byte(read(t, ".demo/stream.json")), &report))
	var alarms []int64 // the rows that were learnt before them
	rows := int64(0)
	for _, u := range report.Updates {
		if u.Drift {
			alarms = append(alarms, rows)
		}
		rows += u.Rows
	}
	last := report.Updates[len(report.Updates)-1]
	assert.Equal(t, rows, 60_000, "rows")
	assert.True(t, len(alarms) == 1 && alarms[0] >= 28*1024 && alarms[0] <= 32*1024, "alarms after %d rows, expected one soon after 30000", alarms)
	assert.True(t, last.PrequentialError != nil && *last.PrequentialError <= 5, "the last update: %+v, expected an error below 5 %%", last)
}
