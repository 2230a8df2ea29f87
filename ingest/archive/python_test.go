//go:build python

package archive

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// Tables that PyIceberg and delta-rs write have the rows that these read, at each snapshot and version: after deletes, overwrites,
// compaction and a renamed column.
func TestPythonTables(t *testing.T) {
	interpreter := os.Getenv("STAGEWISE_PYTHON")
	assert.Need(t, interpreter != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	command := exec.Command(interpreter, "testdata/tables.py", t.TempDir())
	command.Stderr = os.Stderr
	printed := assert.Must(command.Output())(t)
	states := 0
	for line := range strings.Lines(string(printed)) {
		var state struct {
			Layout, Path, State string
			Offsets             []int64
		}
		assert.NoError(t, json.Unmarshal([]byte(line), &state))
		assert.Equal(t, offsets(t, state.Layout, state.Path, snapshotName{ID: state.State}), state.Offsets, "%s %s", state.Path, state.State)
		states++
	}
	assert.True(t, states >= 20, "only %d states", states)
}
