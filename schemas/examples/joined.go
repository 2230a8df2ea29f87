package examples

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// headerJoined says how far rows of a topic have been joined with outcomes of another one.
const headerJoined = "stagewise-joined"

// Joined is how far the rows of a topic have been joined with their outcomes, for the partitions that go to one partition of the examples.
// With how far the rows were read it says which rows are examples and which wait: see package ingest/outcome.
type Joined struct {
	Rule     string       `json:"rule"` // what makes a row an example: with another rule other rows wait
	Rows     []JoinInput  `json:"rows"`
	Outcomes []JoinInput  `json:"outcomes"`
	Joins    []JoinCursor `json:"joins"`
}

// JoinInput is how far a partition of a topic has been read. Times are in milliseconds since 1970.
type JoinInput struct {
	Partition int         `json:"partition"`
	Next      int64       `json:"next"`           // the offset after the last that was read; of rows, it is among the positions instead
	Last      wire.Digest `json:"last,omitempty"` // of the message that was read last
	Time      int64       `json:"time"`           // the latest of the messages before Next
	From      int64       `json:"from"`           // rows that wait, or their outcomes, are here or behind
	Since     int64       `json:"since"`          // the latest time of the messages before From
}

// JoinCursor is which rows and outcomes have had their turn.
type JoinCursor struct {
	Partition int       `json:"partition"` // of both topics; -1: the rows are joined with the outcomes of all partitions
	Due       JoinPlace `json:"due"`       // rows whose deadline is before it no longer wait
	Applied   JoinPlace `json:"applied"`   // outcomes before it have met the rows that waited
	Labelled  int       `json:"labelled"`  // messages that the first outcome from there on has met already
}

// JoinPlace orders messages of a topic: by time, then partition, then offset.
type JoinPlace struct {
	Time      int64 `json:"time"`
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Equal reports whether both are nil, or say the same.
func (j *Joined) Equal(other *Joined) bool {
	if j == nil || other == nil {
		return j == other
	}
	return j.Rule == other.Rule && slices.Equal(j.Rows, other.Rows) && slices.Equal(j.Outcomes, other.Outcomes) &&
		slices.Equal(j.Joins, other.Joins)
}

// Header returns the header of the progress.
func (j *Joined) Header() wire.Header {
	return wire.Header{Key: headerJoined, Value: string(wire.JSON(j))}
}

// JoinedOf decodes how far rows have been joined when an examples message was written; nil if it does not say. An error wraps
// [wire.ErrDamaged].
func JoinedOf(m wire.Message) (*Joined, error) {
	text := m.Get(headerJoined)
	if text == "" {
		return nil, nil
	}
	j := &Joined{}
	if err := json.Unmarshal([]byte(text), j); err != nil {
		return nil, fmt.Errorf("%w: header %s is %s: %w", wire.ErrDamaged, headerJoined, stream.Quote(text), err)
	}
	for _, inputs := range [][]JoinInput{j.Rows, j.Outcomes} {
		for _, in := range inputs {
			if in.Partition < 0 || in.Next < 0 || in.From < 0 {
				return nil, fmt.Errorf("%w: header %s is %s, expected partitions and offsets of at least 0", wire.ErrDamaged, headerJoined,
					stream.Quote(text))
			}
		}
	}
	return j, nil
}
