package page

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Whatever numbers the records of a run have, the page has JSON, and shows what it can.
func TestAnyNumbersAreShown(t *testing.T) {
	log := openLog(t)
	report, _, err := pipeline.Train(t.Context(), log, openBLAS(t), digits(), dispatch.TrainOptions{}, event.Ignore{})
	noError(t, err)
	client := protocol.NewClient(log, "digits", nil)
	ledger := must(client.ReadLedger(t.Context()))(t)
	spans := must(client.Log.Spans(t.Context(), client.Topics.Statistics))(t)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e99, math.MaxFloat64} {
		for column := range statistics.LossFields {
			f := newFollowed(ledger.Plan(report.Run), client)
			var records wire.Collector[float64]
			for _, s := range spans {
				err := client.Remaining(t.Context(), client.Topics.Statistics, s.Partition, 0, math.MaxInt64, func(m protocol.Message) error {
					if m.Kind() != statistics.KindVisit {
						return nil
					}
					record, err := records.Add(m.Message, memory.DefaultAllocator)
					if err != nil || record == nil {
						return err
					}
					if splits, any := record.Tensors.Find(statistics.FieldSplits); any {
						splits.Data[column] = v
					}
					messages, err := record.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator)
					for _, m := range messages {
						f.add(false, protocol.Message{Message: m})
					}
					return err
				})
				noError(t, err)
			}
			board := NewBoard()
			board.Put(&State{Run: f.state()})
			if text := board.json(); !json.Valid(text) || !strings.Contains(string(text), report.Run) {
				t.Errorf("%v in column %d: %s", v, column, text)
			}
		}
	}
}

// A part that has no JSON stays as it was, and the summary says so.
func TestPartWithoutJSON(t *testing.T) {
	board := NewBoard()
	board.Put(&State{Topics: []Topic{{Name: "clicks.examples"}}})
	board.Put(&State{Topics: []Topic{{Name: "clicks.plans", Rate: math.NaN()}}})
	text := string(board.json())
	if !json.Valid([]byte(text)) || !strings.Contains(text, "clicks.examples") || !strings.Contains(text,
		"The part topics is older than the rest") {
		t.Error(text)
	}
	board.Put(&State{Topics: []Topic{{Name: "clicks.plans"}}})
	if text := string(board.json()); !strings.Contains(text, "clicks.plans") || strings.Contains(text, "older") {
		t.Error(text)
	}
}
