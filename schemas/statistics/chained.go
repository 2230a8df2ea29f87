package statistics

import (
	"encoding/json"
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Chained is what a run of a chain needs from the survey of each partition. It does not add up: a merged record has that of
// each of its partitions.
type Chained struct {
	Skipped  coverage.Spans      // messages in the span that are not included
	Progress []PartitionProgress // of the sources of the plan, after the span
	// Increments are the coverages of the increments of a full run, in order; without spans if the partition has nothing of an increment.
	Increments []coverage.Coverage
	// Messages are the losses of the previous version on each message with training rows, in order; nil unless the run is an update.
	Messages []MessageLosses
	// Served are the errors of the answers that were served for the training rows of an update; nil: none of its rows was served.
	Served []ServedLosses
}

// PartitionProgress is the progress of a source in one partition.
type PartitionProgress struct {
	Source  string `json:"source"`  // source ID
	Attempt string `json:"attempt"` // attempt of the ingest
	Next    int64  `json:"next"`    // first sequence that is not counted
}

// MessageLosses are the prequential losses of the training rows of one message.
type MessageLosses struct {
	Offset int64
	Losses // of the training rows
}

// Tensors of the [Chained] of a survey's partitions.
const (
	tensorChained  = "chained"  // text
	tensorMessages = "messages" // [n, 5]: offset, Σw, rows, Σw of wrong rows, Σw·loss
)

// chainedText is the text of a partition in tensorChained.
type chainedText struct {
	Skipped    coverage.Spans      `json:"skipped,omitempty"`
	Progress   []PartitionProgress `json:"progress,omitempty"`
	Increments []coverage.Coverage `json:"increments,omitempty"`
	Messages   int                 `json:"messages,omitempty"` // its rows of tensorMessages
	Served     int                 `json:"served,omitempty"`   // its rows of tensorServed
}

// chainedTensors makes the tensors of the partitions.
func chainedTensors(partitions []Chained) (tensors wire.Tensors[float64]) {
	text, messages, served := make([]string, len(partitions)), []MessageLosses(nil), []ServedLosses(nil)
	for i, c := range partitions {
		text[i] = string(wire.JSON(chainedText{c.Skipped, c.Progress, c.Increments, len(c.Messages), len(c.Served)}))
		messages, served = append(messages, c.Messages...), append(served, c.Served...)
	}
	tensors = wire.Tensors[float64]{wire.Words[float64](tensorChained, text)}
	if messages != nil {
		tensors = append(tensors, messagesTensor(messages))
	}
	if served != nil {
		tensors = append(tensors, servedTensor(served))
	}
	return tensors
}

// chainedOf is the inverse of chainedTensors.
func chainedOf(tensors wire.Tensors[float64]) (partitions []Chained, err error) {
	text, _ := tensors.Find(tensorChained)
	var messages []MessageLosses
	if t, any := tensors.Find(tensorMessages); any {
		if messages, err = messagesOf(t); err != nil {
			return nil, err
		}
	}
	served := wire.Matrix[float64](tensorServed, 0, servedFields, nil)
	if t, any := tensors.Find(tensorServed); any {
		if len(t.Shape) != 2 || t.Shape[1] != servedFields || len(t.Text) > 0 {
			return nil, &wire.ShapeError{Tensor: t.Name, Got: t.Shape, Want: []int{-1, servedFields}}
		}
		served = t
	}
	for _, text := range text.Text {
		var of chainedText
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			return nil, fmt.Errorf("%s %s: %w", tensorChained, stream.Quote(text), err)
		}
		if err := coverage.Check(of.Skipped); err != nil {
			return nil, fmt.Errorf("%s %s: %w", tensorChained, stream.Quote(text), err)
		}
		c := Chained{Skipped: of.Skipped, Progress: of.Progress, Increments: of.Increments}
		if of.Messages < 0 || of.Messages > len(messages) || of.Served < 0 || of.Served > served.Shape[0] {
			return nil, fmt.Errorf("%s %s: %d messages and %d served are left", tensorChained, stream.Quote(text), len(messages), served.Shape[0])
		}
		if of.Messages > 0 {
			c.Messages, messages = messages[:of.Messages:of.Messages], messages[of.Messages:]
		}
		if of.Served > 0 {
			n := of.Served * servedFields
			if c.Served, err = servedOf(wire.Matrix(tensorServed, of.Served, servedFields, served.Data[:n])); err != nil {
				return nil, err
			}
			served = wire.Matrix(tensorServed, served.Shape[0]-of.Served, servedFields, served.Data[n:])
		}
		partitions = append(partitions, c)
	}
	if len(messages) > 0 || served.Shape[0] > 0 {
		return nil, fmt.Errorf("%d messages and %d served belong to no partition", len(messages), served.Shape[0])
	}
	return partitions, nil
}

// messagesTensor makes the tensor of the losses of messages.
func messagesTensor(messages []MessageLosses) wire.Tensor[float64] {
	data := make([]float64, 0, (1+LossFields)*len(messages))
	for _, m := range messages {
		data = append(data, float64(m.Offset), m.Weight, m.Rows, m.Errors, m.Loss)
	}
	return wire.Matrix(tensorMessages, len(messages), 1+LossFields, data)
}

func messagesOf(t wire.Tensor[float64]) ([]MessageLosses, error) {
	if len(t.Shape) != 2 || t.Shape[1] != 1+LossFields || len(t.Text) > 0 {
		return nil, &wire.ShapeError{Tensor: t.Name, Got: t.Shape, Want: []int{-1, 1 + LossFields}}
	}
	messages := make([]MessageLosses, t.Shape[0])
	for i := range messages {
		at := t.Data[i*(1+LossFields):]
		messages[i] = MessageLosses{int64(at[0]), Losses{at[1], at[2], at[3], at[4]}}
		if err := messages[i].check(); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return messages, nil
}
