package coverage

import "encoding/json"

// PassedOver counts the messages and rows of the examples topic that a run leaves out, by reason. It has no zero counts. The zero value is
// empty and read-only. Unusable messages are not counted here: they are in quarantine.
type PassedOver map[PassOverReason]int64

// PassOverReason is the reason why a run skips a message.
type PassOverReason string

// The reasons: [PassOverReasons] has their meanings.
const (
	OtherProducer PassOverReason = "other_producer"
	OtherSource   PassOverReason = "other_source"
	Unsealed      PassOverReason = "unsealed"
	Removed       PassOverReason = "removed"
	Repeated      PassOverReason = "repeated"
	LeftOut       PassOverReason = "left_out" // also if another run of the chain adds the rows
	Expired       PassOverReason = "expired"
	Expiring      PassOverReason = "expiring"
	Outside       PassOverReason = "outside"
	ForgottenRow  PassOverReason = "forgotten" // rows with weight 0 of included messages
	Overflowing   PassOverReason = "overflow"  // rows of included messages
	NoLabel       PassOverReason = "no_label"  // rows of included messages
	Missing       PassOverReason = "missing"   // although retention has not deleted the message
)

// PassOverMeaning describes a reason to people.
type PassOverMeaning struct {
	Reason  PassOverReason
	What    string // unit: message or row
	Meaning string
}

// PassOverReasons returns the reasons, each with its unit and its meaning, in the order of the documentation.
func PassOverReasons() []PassOverMeaning {
	return []PassOverMeaning{
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

// MarshalJSON returns the counts as a JSON object, even if there are none.
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
