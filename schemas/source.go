package schemas

import (
	"fmt"
)

// KindSource is the kind of a [SourceSeal].
const KindSource Kind = "source"

// SourceSeal says that an ingested source is on the examples topic, whole.
// Its messages carry ID and Attempt in the header `source` and their number
// in the header `sequence`; sequence s is in partition s mod Partitions.
type SourceSeal struct {
	ID         string `json:"id"`      // digest of its content and settings
	Attempt    string `json:"attempt"` // what a half ingest before it does not share
	Split      string `json:"split"`
	Partitions int    `json:"partitions"`
	Messages   int64  `json:"messages"`
	Rows       int64  `json:"rows"`
	Spans      Spans  `json:"spans"` // of the offsets that hold its messages
}

// Header is the value of the header `source` of this source's messages.
func (s *SourceSeal) Header() string { return s.ID + "/" + s.Attempt }

// Message encodes the seal for the plans topic.
func (s *SourceSeal) Message() Message {
	return jsonMessage(KindSource, "", "source/"+s.Header(), s)
}

// Check tells what of a seal would make those who count its source fail.
func (s *SourceSeal) Check() error {
	if s.Partitions < 1 {
		return fmt.Errorf("a source on %d partitions", s.Partitions)
	}
	return checkSpans(s.Spans)
}

func sourceLayout() Layout {
	return Layout{
		Kind: KindSource, Topic: "plans", Key: "source/ID/ATTEMPT", Writer: "ingest", Reader: "planner",
		Says: "an ingested source is whole: messages, rows, spans", Value: SourceSeal{},
	}
}
