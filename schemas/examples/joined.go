package examples

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// headerJoined has the progress of joining rows of a topic with outcomes of another topic.
const headerJoined = "stagewise-joined"

// Joined is the progress of joining the rows of a topic with their outcomes, for the partitions that go to one partition of the examples.
// Together with the positions of the rows, it determines which rows are examples and which wait: see package ingest/outcome.
type Joined struct {
	Rule     string       `json:"rule"` // digest of the join rule: with another rule other rows wait
	Rows     []JoinInput  `json:"rows"`
	Outcomes []JoinInput  `json:"outcomes"`
	Joins    []JoinCursor `json:"joins"`
}

// JoinInput is the position up to which a partition of a topic has been read. Times are in milliseconds since 1970.
type JoinInput struct {
	Partition int         `json:"partition"`
	Next      int64       `json:"next"`           // offset after the last message read; for rows, it is in the positions instead
	Last      wire.Digest `json:"last,omitempty"` // digest of the last message read
	Time      int64       `json:"time"`           // latest timestamp before Next
	From      int64       `json:"from"`           // offset of the first pending row or outcome, or an earlier offset
	Since     int64       `json:"since"`          // latest timestamp before From
}

// JoinCursor is the position up to which rows and outcomes have been joined.
type JoinCursor struct {
	Partition int       `json:"partition"` // of both topics; -1: the rows are joined with the outcomes of all partitions
	Due       JoinPlace `json:"due"`       // rows with an earlier deadline no longer wait
	Applied   JoinPlace `json:"applied"`   // outcomes before it have been applied to the waiting rows
	Labelled  int       `json:"labelled"`  // messages that the first outcome from Applied on has been applied to already
	// Counts are of what has been joined.
	Counts JoinCounts `json:"counts"`
}

// JoinCounts are numbers of rows and outcomes since the topics were first read.
type JoinCounts struct {
	Rows     int64 `json:"rows"`     // decided messages of rows
	Absent   int64 `json:"absent"`   // those without an outcome
	Outcomes int64 `json:"outcomes"` // labels of outcomes
	Matched  int64 `json:"matched"`  // those whose key a row has, at its time
	Late     int64 `json:"late"`     // those that came after their row was decided as absent
	Disorder int64 `json:"disorder"` // of the late ones: maximum milliseconds that one was behind its partition
}

// JoinPlace orders messages of a topic: by time, then partition, then offset.
type JoinPlace struct {
	Time      int64 `json:"time"`
	Partition int   `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Equal reports whether both are nil, or have equal values.
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

// JoinedOf decodes the progress of joining at the time when an examples message was written; nil if the message does not have it. An error
// wraps [wire.ErrDamaged].
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
