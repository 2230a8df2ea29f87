package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/stages"
)

// Rows whose words are in other columns than those that a chain has learnt are refused before they are ingested.
func TestChainKeepsItsWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.csv")
	rows := "text,label\n" + strings.Repeat("cheap pills,spam\nsee you,ham\n", 40)
	noError(t, os.WriteFile(path, []byte(rows), 0o600))
	job := newJob(t, rings(1, 2, 2, 1), table{}, kindStage(stages.Columns, link.Softmax))
	job.Stages[0].Features = stages.DefaultsOf(stages.Columns)
	job.Examples.Train, job.Examples.Label, job.Examples.Text = []string{path}, "label", "text"
	job.Retrain = topics.DefaultRetrain()
	log := openEmbedded(t)
	must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	before := len(readTopic(t, log, job.Name+".examples"))
	job.Examples.Words.Columns = 1000
	_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err == nil || !strings.Contains(err.Error(), "examples.words") {
		t.Errorf("%v, expected the key examples.words", err)
	}
	if after := len(readTopic(t, log, job.Name+".examples")); after != before {
		t.Errorf("the topic has %d messages, and had %d", after, before)
	}
}
