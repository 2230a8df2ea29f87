package topics

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// An archive that lacks messages is listed once more for each first offset of the topic, however many are missing, since a sink may have
// written them to files.
func TestMissingMessagesOfAnArchive(t *testing.T) {
	folder := t.TempDir()
	write := func(offset int) {
		assert.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("rows+0+%d.json", offset)), []byte("{}\n"), 0o600))
	}
	for offset := range 20 {
		write(2 * offset)
	}
	o := ingest.Defaults()
	o.FromTopic, o.Format, o.Columns.Use = "rows", "json", []string{"x"}
	o.Archive.Files, o.Archive.OnGap = folder, archive.GapContinue
	log := withArchive(nil, o).(*archived)
	read := func(first int64) (messages, gaps, lists int) {
		known := log.archive
		for from := int64(0); from < first; {
			next := first
			for _, err := range log.rows(t.Context(), 0, from, first, first) {
				if log.archive != known {
					known, lists = log.archive, lists+1
				}
				deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
				switch {
				case err == nil:
					messages++
				case ok:
					gaps, next = gaps+1, deleted.First
				default:
					t.Fatal(err)
				}
			}
			from = next
		}
		return messages, gaps, lists
	}
	messages, gaps, lists := read(40)
	assert.True(t, messages == 20 && gaps == 20 && lists <= 2, "%d messages, %d gaps, %d lists", messages, gaps, lists)
	write(1)
	write(3)
	messages, gaps, lists = read(40)
	assert.True(t, messages == 20 && gaps == 20 && lists == 0, "nothing is deleted: %d messages, %d gaps, %d lists", messages, gaps, lists)
	messages, gaps, lists = read(41)
	assert.True(t, messages == 22 && gaps == 18 && lists <= 1, "messages are deleted: %d messages, %d gaps, %d lists", messages, gaps, lists)
}
