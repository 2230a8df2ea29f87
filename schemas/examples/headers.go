package examples

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// headerRows lists the messages of a followed topic that the rows of an examples message come from.
const headerRows = "stagewise-rows"

// columnSourceKey has, for each row, the key of its message on the topic.
const columnSourceKey = "source_key"

// RowOrigin is the messages of a followed topic that some rows of an examples message come from: messages of one partition with
// consecutive offsets and the same number of rows.
type RowOrigin struct {
	Partition int   // of the topic
	Offset    int64 // of the first message
	Rows      int   // of each message, at least 1
	Messages  int   // number of messages, at least 1
}

// RowOrigins are the origins of all rows of an examples message, in row order.
type RowOrigins []RowOrigin

// Append returns the origins with that of the next rows, which come from one message. It may change the last element.
func (o RowOrigins) Append(partition int, offset int64, rows int) RowOrigins {
	if o.continues(partition, offset, rows) {
		o[len(o)-1].Messages++
		return o
	}
	return append(o, RowOrigin{partition, offset, rows, 1})
}

// Bytes returns the maximum number of bytes that the origin of the next rows adds to a message.
func (o RowOrigins) Bytes(partition int, offset int64, rows int) int {
	if o.continues(partition, offset, rows) {
		return 1 // the number of messages may get a digit
	}
	return len(fmt.Sprintf("[%d,%d,%d,1],", partition, offset, rows))
}

func (o RowOrigins) continues(partition int, offset int64, rows int) bool {
	if len(o) == 0 {
		return false
	}
	last := o[len(o)-1]
	return last.Partition == partition && last.Offset+int64(last.Messages) == offset && last.Rows == rows
}

// In calls with for the ranges of rows [first, end) that come from messages of a partition of the topic with offsets in
// [from, to).
func (o RowOrigins) In(partition int, from, to int64, with func(first, end int)) {
	row := 0
	for _, r := range o {
		if r.Partition == partition {
			first, end := max(from-r.Offset, 0), min(to-r.Offset, int64(r.Messages))
			if first < end {
				with(row+int(first)*r.Rows, row+int(end)*r.Rows)
			}
		}
		row += r.Rows * r.Messages
	}
}

// Header returns the header of the origins.
func (o RowOrigins) Header() wire.Header {
	list := make([][4]int64, len(o))
	for i, r := range o {
		list[i] = [4]int64{int64(r.Partition), r.Offset, int64(r.Rows), int64(r.Messages)}
	}
	return wire.Header{Key: headerRows, Value: string(wire.JSON(list))}
}

// RowOriginsOf decodes the origins of the rows of an examples message; nil if it does not have them. An error wraps
// [wire.ErrDamaged].
func RowOriginsOf(m wire.Message) (origins RowOrigins, err error) {
	text := m.Get(headerRows)
	if text == "" {
		return nil, nil
	}
	var list [][4]int64
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: header %s is %s: %w", wire.ErrDamaged, headerRows, stream.Quote(text), err)
	}
	for _, r := range list {
		const most = 1 << 31 // rows that no message has
		if r[0] < 0 || r[1] < 0 || r[2] < 1 || r[3] < 1 || r[0] >= most || r[2] >= most || r[3] >= most {
			return nil, fmt.Errorf("%w: header %s is %s, expected lists of a partition, an offset, rows and messages", wire.ErrDamaged,
				headerRows, stream.Quote(text))
		}
		origins = append(origins, RowOrigin{int(r[0]), r[1], int(r[2]), int(r[3])})
	}
	return origins, nil
}

// SourceKeys decodes the source keys of rows from the value of an examples message: the keys of their messages on the
// followed topic, "" for a message without a key; nil if no row has a key, or if ingest did not keep them. An error
// wraps [wire.ErrDamaged].
func SourceKeys(value []byte, mem memory.Allocator) (keys []string, err error) {
	record, err := stream.Decode(value, mem, func(column string) bool { return column == columnSourceKey })
	if err != nil {
		return nil, err
	}
	defer record.Release()
	for i, column := range record.Columns() {
		if record.ColumnName(i) != columnSourceKey {
			continue
		}
		all, ok := column.(*array.Binary)
		if !ok {
			return nil, fmt.Errorf("%w: column %s: type %v, expected binary", wire.ErrDamaged, columnSourceKey, column.DataType())
		}
		for row := range all.Len() {
			key := ""
			if !all.IsNull(row) {
				key = string(all.Value(row))
			}
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// headerJoined has the progress of joining rows of a topic with outcomes of another topic.
const headerJoined = "stagewise-joined"

// Joined is the progress of joining the rows of a topic with their outcomes, for the partitions that go to one partition of the examples.
// Together with the positions of the rows, it determines which rows are examples and which wait: see package ingest/outcome.
type Joined struct {
	Rule     string       `json:"rule"` // digest of the join rule: with another rule other rows wait
	Rows     []JoinInput  `json:"rows"`
	Outcomes []JoinInput  `json:"outcomes"`
	Joins    []JoinCursor `json:"joins"`
	// Limit is the fraction of outcomes without a row beyond which no version is offered.
	Limit float64 `json:"limit,omitempty"`
	// Schemas are the IDs in message keys that are those of a schema registry.
	Schemas []int `json:"schemas,omitempty"`
	// RowKey and OutcomeKey describe the last keys read, as bytes and as read, if most outcomes have no row.
	RowKey     string `json:"row_key,omitempty"`
	OutcomeKey string `json:"outcome_key,omitempty"`
}

// JoinInput is the position up to which a partition of a topic has been read. Times are in milliseconds since 1970.
type JoinInput struct {
	Partition int    `json:"partition"`
	Next      int64  `json:"next"`           // offset after the last message read; for rows, it is in the positions instead
	Last      string `json:"last,omitempty"` // checksum of the last message read
	Time      int64  `json:"time"`           // latest timestamp before Next
	From      int64  `json:"from"`           // offset of the first pending row or outcome, or an earlier offset
	Since     int64  `json:"since"`          // latest timestamp before From
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
	Rows     int64 `json:"rows"`            // decided messages of rows
	Absent   int64 `json:"absent"`          // those without an outcome
	Outcomes int64 `json:"outcomes"`        // labels of outcomes
	Matched  int64 `json:"matched"`         // those whose key a row has, at its time
	Early    int64 `json:"early,omitempty"` // others without a row, which are too early for the first rows that the topic has
	Late     int64 `json:"late"`            // those that came after their row was decided as absent
	Disorder int64 `json:"disorder"`        // of the late ones: maximum milliseconds that one was behind its partition
}

// Plus returns the sum of the counts of two joins, which read different outcomes.
func (c JoinCounts) Plus(o JoinCounts) JoinCounts {
	return JoinCounts{Rows: c.Rows + o.Rows, Absent: c.Absent + o.Absent, Outcomes: c.Outcomes + o.Outcomes, Matched: c.Matched + o.Matched,
		Early: c.Early + o.Early, Late: c.Late + o.Late, Disorder: max(c.Disorder, o.Disorder)}
}

// Together returns the counts of joins that all read the same outcomes, each for its own rows. The row of an outcome may be in a partition
// whose join is behind, so matches are scaled to the outcomes of the join that is furthest. If a join has read less than half as many,
// it is not yet known which outcomes have no row, and none is counted as such.
func Together(joins []JoinCounts) (all JoinCounts) {
	furthest, early := int64(0), int64(0)
	for _, c := range joins {
		furthest, early = max(furthest, c.Outcomes), max(early, c.Early)
	}
	known := !slices.ContainsFunc(joins, func(c JoinCounts) bool { return c.Behind(furthest) })
	for _, c := range joins {
		if known {
			c = c.Scaled(furthest)
		}
		c.Outcomes = 0
		all = all.Plus(c)
	}
	all.Outcomes, all.Early = furthest, early
	if !known {
		all.Outcomes, all.Early = all.Matched+all.Late, 0
	}
	all.Matched = min(all.Matched, all.Outcomes-all.Late) // rows of several joins may have the same outcome
	return all.OrEarly()
}

// OrEarly returns the counts with the early outcomes if there are no others: the unit of their times may be another one.
func (c JoinCounts) OrEarly() JoinCounts {
	if c.Outcomes == 0 {
		c.Outcomes, c.Early = c.Early, 0
	}
	return c
}

// Scaled returns the counts for another number of outcomes, with the same fraction of matches. Without outcomes nothing changes.
func (c JoinCounts) Scaled(outcomes int64) JoinCounts {
	if c.Outcomes != 0 && c.Outcomes != outcomes {
		scale := float64(outcomes) / float64(c.Outcomes)
		c.Matched, c.Late = int64(math.Round(float64(c.Matched)*scale)), int64(math.Round(float64(c.Late)*scale))
		c.Outcomes = outcomes
	}
	return c
}

// Behind reports whether a join has read less than half of the outcomes of another one.
func (c JoinCounts) Behind(furthest int64) bool { return 2*c.Outcomes < furthest }

// Since returns the counts since an earlier state.
func (c JoinCounts) Since(o JoinCounts) JoinCounts {
	c.Rows, c.Absent = c.Rows-o.Rows, c.Absent-o.Absent
	c.Outcomes, c.Matched, c.Early, c.Late = c.Outcomes-o.Outcomes, c.Matched-o.Matched, c.Early-o.Early, c.Late-o.Late
	return c
}

// Alone returns the number of outcomes without a row.
func (c JoinCounts) Alone() int64 { return max(0, c.Outcomes-c.Matched-c.Late) }

// Counts returns the sum of the counts of the joins; shared means that joins of other partitions read the same outcomes.
func (j *Joined) Counts() (counts JoinCounts, shared bool) {
	if j == nil {
		return counts, false
	}
	for _, join := range j.Joins {
		shared = shared || join.Partition < 0
		counts = counts.Plus(join.Counts)
	}
	return counts, shared
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
