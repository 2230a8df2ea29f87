package schemas

import (
	"bytes"
	"strconv"

	"github.com/stagewise/stagewise/schemas/wire"
)

// KindLedger is the kind of a [Ledger] document.
const KindLedger wire.Kind = "ledger"

// Ledger is the state of the plans topic before an offset. Readers begin with the latest ledger, and skip the messages
// before its offset.
type Ledger struct {
	Before     int64        `json:"before"`     // offset: the ledger summarises the messages before it
	Unfinished []Place      `json:"unfinished"` // plans without an end, in order
	Sources    []SourceSeal `json:"sources"`    // seals in effect, in order
	// Removed are the seals of removed sources, in the order of the removals.
	Removed    []SourceSeal `json:"removed,omitempty"`
	Incomplete []string     `json:"incomplete"` // sealed sources with missing messages, in the format of [SourceName]
	Versions   []Place      `json:"versions"`   // versions that are not removed, by number
	Highest    int          `json:"highest"`    // highest version number, including removed versions; 0: no version
	// Pinned is the ID of the run whose version is pinned: see [Pin].
	Pinned string `json:"pinned,omitempty"`
	// Divisions are the divisions in effect of followed topics: for each topic, that of the last attempt to read it.
	Divisions []Division `json:"divisions,omitempty"`
	// Chained is the run of a chain whose plan took effect last, ended or not; absent: none.
	Chained *ChainedRun `json:"chained,omitempty"`
	Swept   int64       `json:"swept"` // offset of the plans topic: obsolete messages before it have tombstones
	// VersionsSwept is an offset of the versions topic: messages before it that belong to no version have tombstones.
	VersionsSwept int64 `json:"versions_swept"`
}

// ChainedRun identifies a run of a chain and its place in it.
type ChainedRun struct {
	Run     string `json:"run"`     // run ID
	Number  int    `json:"number"`  // number of the run in its chain
	Attempt int    `json:"attempt"` // see [Chain]
	// Parent is the ID of the run that it continues from. Until this run is done, that run made the newest version of the chain. Empty for
	// the first run.
	Parent string `json:"parent,omitempty"`
}

// Before reports whether the run precedes a plan in the chain.
func (r *ChainedRun) Before(c *Chain) bool {
	return r.Number < c.Number || r.Number == c.Number && r.Attempt < c.Attempt
}

// Place is the position of the messages of a run's plan or version on a topic. Other messages may be between them.
type Place struct {
	Run     string `json:"run"`               // run ID
	Version int    `json:"version,omitempty"` // version number; 0 for a plan
	From    int64  `json:"from"`              // first offset
	To      int64  `json:"to"`                // offset after the last
	// Since is where the run of a plan begins to read, which may be later than the plan says; absent for a version.
	Since *Since `json:"since,omitempty"`
	// Withheld is true if the version is not offered: subscribers get it only by version number or run ID, or while it is pinned. See
	// [Gate].
	Withheld bool `json:"withheld,omitempty"`
	// Manifest is the offset at which a version's manifest begins; 0 for a plan.
	Manifest int64 `json:"manifest,omitempty"`
}

// LedgerBefore returns Before of a ledger's JSON, given the complete document from [wire.Documents]. If it is the first
// field, as in [Ledger.Messages], the rest is not decoded. An error wraps [wire.ErrDamaged].
func LedgerBefore(m wire.Message) (int64, error) {
	if rest, ok := bytes.CutPrefix(m.Value, []byte(`{"before":`)); ok {
		if number, _, ok := bytes.Cut(rest, []byte(",")); ok {
			if before, err := strconv.ParseInt(string(number), 10, 64); err == nil {
				return before, nil
			}
		}
	}
	l, err := DecodeJSON[Ledger](m)
	if err != nil {
		return 0, err
	}
	return l.Before, nil
}

// Messages encodes the ledger for the plans topic. The error is a *[wire.DocumentError].
func (l *Ledger) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindLedger, "", l) }
