package screen

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// The screen has a row for each version of a chain, with what an operator should know.
func TestProgressOfAChain(t *testing.T) {
	var screen bytes.Buffer
	p := NewProgress(&screen, time.Now)
	p.Record(event.Began{Run: "abc", Chained: true})
	e := 2.5
	p.Record(event.Retrained{Number: 1, RetrainReport: schemas.RetrainReport{Version: 1, Kind: schemas.RunFull, Rows: 1000,
		WindowRows: 1000, Offered: true, Seconds: 2}})
	p.Record(event.Retrained{Number: 2, RetrainReport: schemas.RetrainReport{
		Version: 2, Kind: schemas.RunUpdate, Rows: 500, WindowRows: 1500, Drift: true, Seconds: 0.5, PrequentialError: &e, NoLabel: 2,
		Gate:      &schemas.GateReport{Weight: 50, Loss: 0.25, OfferedLoss: 0.125},
		MostlyBad: &coverage.BadMessages{Messages: 3, Of: 4, Partition: 1, Offset: 7, Reason: "damaged"},
	}})
	for _, want := range []string{
		" version           new rows       window  error before   holdout  seconds\n",
		"       1  full        1,000        1,000             -         -     2.00\n",
		"       2  update        500        1,500        2.50 %         -     0.50  the stream has changed  not offered: loss " +
			"0.25, offered version 0.125  most messages are unusable  2 rows without a label (null, empty or one of examples.missing_values)\n",
		"3 of 4 new messages can't be used; the first is partition 1, offset 7: damaged\n",
	} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("%s\nexpected %s", screen.String(), want)
		}
	}
}
