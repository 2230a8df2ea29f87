package coverage

import "encoding/json"

// PassedOver counts the messages and rows of the examples topic that a run leaves out, by reason. It has no zero counts. The zero value is
// empty and read-only. Unusable messages are not counted here: they are in quarantine.
type PassedOver map[PassOverReason]int64

// PassOverReason is the reason why a run skips a message.
type PassOverReason string

// The reasons.
const (
	// OtherProducer: the run is of files, and another producer wrote the message.
	OtherProducer PassOverReason = "other_producer"
	// OtherSource: the run is of files, and the message belongs to none of them, or to an interrupted ingest of them.
	OtherSource PassOverReason = "other_source"
	// Unsealed: the ingest that wrote the message was interrupted, or is still running.
	Unsealed PassOverReason = "unsealed"
	// Removed: the message belongs to a removed source.
	Removed PassOverReason = "removed"
	// Repeated: the message is a duplicate.
	Repeated PassOverReason = "repeated"
	// LeftOut: an earlier run of the chain has left the message out, or another run of the chain adds its rows.
	LeftOut PassOverReason = "left_out"
	// Expired: retention has deleted the message of a source before the run began.
	Expired PassOverReason = "expired"
	// Expiring: retention may delete the message before the run has ended.
	Expiring PassOverReason = "expiring"
	// Outside: the configuration excludes the message, by time or offset.
	Outside PassOverReason = "outside"
	// ForgottenRow counts rows, not messages: forgotten rows, with weight 0, of included messages.
	ForgottenRow PassOverReason = "forgotten"
	// Overflowing counts rows, not messages: quarantined rows that overflow, of included messages.
	Overflowing PassOverReason = "overflow"
	// NoLabel counts rows, not messages: rows without a label, of included messages.
	NoLabel PassOverReason = "no_label"
	// Missing: the message of a source is not on the topic, although retention has not deleted it.
	Missing PassOverReason = "missing"
)

// PassOverReasons returns the reasons, each with its unit and its human-readable meaning, in the order of the documentation.
func PassOverReasons() []struct {
	Reason  PassOverReason
	What    string // unit: message or row
	Meaning string
} {
	return []struct {
		Reason  PassOverReason
		What    string
		Meaning string
	}{
		{OtherProducer, "message", "from other producers (the run reads files)"},
		{OtherSource, "message", "from other files or an interrupted ingest"},
		{Unsealed, "message", "from an unfinished ingest"},
		{Removed, "message", "from removed sources"},
		{Repeated, "message", "that are duplicates"},
		{LeftOut, "message", "excluded by an earlier version of the chain"},
		{Expired, "message", "deleted by retention before the run started"},
		{Expiring, "message", "that retention may delete before the run ends"},
		{Outside, "message", "outside examples.from and examples.to"},
		{ForgottenRow, "row", "that were forgotten"},
		{Overflowing, "row", "quarantined because of overflow"},
		{NoLabel, "row", "without a label"},
		{Missing, "message", "missing from a source"},
	}
}

// Add adds the counts of o.
func (p *PassedOver) Add(o PassedOver) {
	for reason, n := range o {
		p.Count(reason, n)
	}
}

// Count adds n messages that are left out for a reason.
func (p *PassedOver) Count(reason PassOverReason, n int64) {
	if n == 0 {
		return
	}
	if *p == nil {
		*p = PassedOver{}
	}
	(*p)[reason] += n
}

// MarshalJSON returns the counts as a JSON object, also if there are none.
func (p PassedOver) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[PassOverReason]int64(p))
}

// UnmarshalJSON is the inverse of [PassedOver.MarshalJSON].
func (p *PassedOver) UnmarshalJSON(text []byte) error {
	var counts map[PassOverReason]int64
	if err := json.Unmarshal(text, &counts); err != nil {
		return err
	}
	if *p = counts; len(counts) == 0 {
		*p = nil
	}
	return nil
}
