package schemas

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindForget is the kind of a [Forget] message.
const KindForget wire.Kind = "forget"

// Forget excludes rows of the examples topic from all future training. It is never changed or revoked.
type Forget struct {
	Rows coverage.Forgotten `json:"rows,omitempty"` // forgotten rows, in order
	// Source is the ID of the ingested source of these rows, which is not ingested again. Empty: the rows do not belong to a single source.
	Source string `json:"source,omitempty"`
	// Checksums are the checksums of the messages at the offsets of Rows, in the same order, as computed by [ForgetChecksum]; empty at an
	// offset without a message. Only rows of messages with these checksums are forgotten. Absent: rows of all messages at these offsets are
	// forgotten.
	Checksums []string `json:"checksums,omitempty"`
	// Lost is what versions have applied and this topic has lost since. An operator writes it to continue without the lost messages.
	Lost *Heeded `json:"lost,omitempty"`
}

// Heeded is the part of the forget topic that a plan applies. It allows later runs to detect that the topic lost messages.
type Heeded struct {
	Entries int    `json:"entries"`        // number of distinct messages
	Last    string `json:"last,omitempty"` // key of the last message; empty: unknown
}

// ForgetChecksum returns the checksum by which a message on the forget topic identifies an examples message.
func ForgetChecksum(m wire.Message) string { return fmt.Sprintf("%08x", m.Checksum()) }

// Names returns the rows in f of the examples message with this position and checksum.
func (f *Forget) Names(partition int, offset int64, checksum string) (rows coverage.Forgotten) {
	before := int64(0)
	for _, r := range f.Rows {
		if at := before + offset - r.From; r.Partition == partition && r.From <= offset && offset < r.To &&
			(len(f.Checksums) == 0 || f.Checksums[at] == "" || f.Checksums[at] == checksum) {
			r.From, r.To = offset, offset+1
			rows = append(rows, r)
		}
		before += r.Span().Len()
	}
	return rows
}

// Message encodes f for the forget topic. The key is a digest of f, so compaction loses nothing.
func (f *Forget) Message() wire.Message {
	return wire.JSONMessage(KindForget, "", "forget/"+wire.DigestJSON(f).Short(), f)
}

// Check returns an error for impossible rows, and for a wrong number of checksums.
func (f *Forget) Check() error {
	if err := f.Rows.Check(); err != nil {
		return err
	}
	offsets := int64(0)
	for _, r := range f.Rows {
		offsets += r.Span().Len()
	}
	if n := int64(len(f.Checksums)); n > 0 && n != offsets {
		return fmt.Errorf("%d checksums of messages at %d offsets", n, offsets)
	}
	return nil
}

// MessageChecksum returns the CRC-32C of a message's value, and its timestamp in milliseconds. It identifies the message.
func MessageChecksum(m wire.Message, milliseconds int64) string {
	return fmt.Sprintf("%08x-%x", m.Checksum(), milliseconds)
}
