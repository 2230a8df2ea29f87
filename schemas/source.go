package schemas

import "fmt"

// KindSource is the kind of a [SourceSeal] message.
const KindSource Kind = "source"

// SourceSeal says that all messages of an ingested source are on the examples topic. Each message has ID and Attempt in
// the header `source` and its number in the header `sequence`. Sequence s is in partition s mod Partitions.
type SourceSeal struct {
	ID         string `json:"id"`         // digest of the source's content and settings
	Attempt    string `json:"attempt"`    // tells this ingest from an interrupted one of the same source
	Split      string `json:"split"`      // of its rows
	Partitions int    `json:"partitions"` // of the examples topic
	Messages   int64  `json:"messages"`
	Rows       int64  `json:"rows"`
	Spans      Spans  `json:"spans"` // of the offsets of its messages
}

// Message encodes the seal for the plans topic.
func (s *SourceSeal) Message() Message {
	return jsonMessage(KindSource, "", "source/"+sourceHeader(s.ID, s.Attempt), s)
}

// Check returns an error for a seal with no partitions or with impossible spans.
func (s *SourceSeal) Check() error {
	if s.Partitions < 1 {
		return fmt.Errorf("partitions is %d, expected at least 1", s.Partitions)
	}
	return checkSpans(s.Spans)
}
