package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindSource is the kind of a [SourceSeal] message.
const KindSource wire.Kind = "source"

// SourceSeal states that all messages of an ingested source are on the examples topic. The headers of each message have ID,
// Attempt and its sequence number: see [Origin]. Sequence s is in partition s mod Partitions.
type SourceSeal struct {
	ID         string         `json:"id"`              // digest of the source's content
	Attempt    string         `json:"attempt"`         // distinguishes this ingest from an interrupted one of the same source
	Files      []string       `json:"files,omitempty"` // file names, without folders; absent in plans
	Split      string         `json:"split"`           // split of the rows
	Partitions int            `json:"partitions"`      // number of partitions of the examples topic
	Messages   int64          `json:"messages"`        // number of messages
	Rows       int64          `json:"rows"`            // number of rows
	Spans      coverage.Spans `json:"spans"`           // offsets of the messages
	// Content is the digest of the file's bytes at the time of the ingest, if the source is a single file. If the file has grown since, it
	// begins with these bytes. Absent in plans.
	Content wire.Digest `json:"content,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"` // number of these bytes
	After   int64       `json:"after,omitempty"` // leading rows of the file that belong to other sources: those before it grew
}

// InPlan returns the seal for a plan, without the fields that identify the file.
func (s SourceSeal) InPlan() SourceSeal {
	s.Files, s.Content, s.Bytes, s.After = nil, "", 0, 0
	return s
}

// Name returns the source's name: see [SourceName].
func (s *SourceSeal) Name() string { return SourceName(s.ID, s.Attempt) }

// Holding is the part of a source that is on a topic.
type Holding int

const (
	// HeldNot: nothing of the source is on the topic.
	HeldNot Holding = iota
	// HeldInPart: retention has deleted the first messages.
	HeldInPart
	// HeldWhole: the topic has all offsets of the source.
	HeldWhole
)

// Held returns which part of the source is on an examples topic. bounds are the offsets of the topic, by partition.
func (s *SourceSeal) Held(bounds []coverage.Span) Holding {
	some, all := false, true
	for _, span := range s.Spans {
		if span.Partition >= len(bounds) || bounds[span.Partition].To < span.To {
			return HeldNot // the topic was recreated
		}
		all = all && bounds[span.Partition].From <= span.From
		some = some || bounds[span.Partition].From < span.To
	}
	switch {
	case all:
		return HeldWhole
	case some:
		return HeldInPart
	}
	return HeldNot
}

// In returns the number of messages of the source in a partition: those with sequence mod Partitions = partition.
func (s *SourceSeal) In(partition int) int64 {
	parts := int64(s.Partitions)
	if int64(partition) >= parts || s.Messages <= int64(partition) {
		return 0
	}
	return (s.Messages-int64(partition)-1)/parts + 1
}

// Left returns the maximum number of messages of the source that a topic with the offsets bounds, by partition, still has. It has fewer if
// messages of other sources are between those of the source.
func (s *SourceSeal) Left(bounds []coverage.Span) (messages int64) {
	if s.Held(bounds) == HeldNot {
		return 0
	}
	for _, span := range s.Spans {
		span.From = max(span.From, bounds[span.Partition].From)
		messages += min(max(span.To-span.From, 0), s.In(span.Partition))
	}
	return messages
}

// Message encodes the seal for the plans topic.
func (s *SourceSeal) Message() wire.Message { return wire.JSONMessage(KindSource, "", s.key(), s) }

// key is the key of the seal's message, and of its removal.
func (s *SourceSeal) key() string { return "source/" + s.Name() }

// Check returns an error for a seal with no partitions or with impossible spans.
func (s *SourceSeal) Check() error {
	if s.Partitions < 1 {
		return fmt.Errorf("partitions is %d, expected at least 1", s.Partitions)
	}
	return coverage.Check(s.Spans)
}

// KindSourceRemoval is the kind of a [SourceRemoval] message.
const KindSourceRemoval wire.Kind = "source-removal"

// SourceRemoval states that a source was removed: its messages stay on the examples topic, but later plans exclude them. It has the key of
// the source's seal, so compaction keeps the later of the two, which is in effect. It contains the seal, which ingest writes again to
// restore the source.
type SourceRemoval struct {
	Seal SourceSeal `json:"seal"` // seal of the source
}

// Message encodes the removal for the plans topic.
func (r *SourceRemoval) Message() wire.Message {
	return wire.JSONMessage(KindSourceRemoval, "", r.Seal.key(), r)
}

// Check returns the errors of [SourceSeal.Check].
func (r *SourceRemoval) Check() error { return r.Seal.Check() }

// KindDivision is the kind of a [Division] message.
const KindDivision wire.Kind = "division"

// Division is the number of examples partitions that a followed topic is ingested into: partition q goes to partition
// q mod Partitions. It is written before the first rows of an attempt to read the topic, so that processes that start
// before and after partitions were added divide it in the same way. Of several divisions of an attempt, the first on
// the topic wins. No two have the same key, because compaction would keep the last.
type Division struct {
	Topic      string `json:"topic"`            // followed topic
	Attempt    int    `json:"attempt"`          // attempt to read the topic: see [Origin]
	Partitions int    `json:"partitions"`       // number of partitions of the examples
	Joined     bool   `json:"joined,omitempty"` // rows have their outcomes in the same partition
	// Schemas are the IDs in message keys that are those of a schema registry, if rows are joined with outcomes.
	Schemas []int  `json:"schemas,omitempty"`
	Writer  string `json:"writer"` // unique for each division
}

// Message encodes the division for the plans topic.
func (d *Division) Message() wire.Message {
	return wire.JSONMessage(KindDivision, "", fmt.Sprintf("division/%s/%d/%s", d.Topic, d.Attempt, d.Writer), d)
}

// Check returns an error for a division into no partitions.
func (d *Division) Check() error {
	if d.Partitions < 1 || d.Attempt < 1 {
		return fmt.Errorf("partitions is %d and attempt is %d, expected at least 1", d.Partitions, d.Attempt)
	}
	return nil
}
