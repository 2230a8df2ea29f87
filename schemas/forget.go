package schemas

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"slices"
)

// KindForget is the kind of a [Forget] message.
const KindForget Kind = "forget"

// Forget says that no version that is planned later may learn from rows of the examples topic. It is never changed or taken back.
type Forget struct {
	Rows Forgotten `json:"rows,omitempty"` // in order
	// Source is the id of an ingested source whose rows these are: it is not ingested again. Empty: the rows are of no one source.
	Source string `json:"source,omitempty"`
	// Checksums are those of the messages at the offsets of Rows, in their order, as [ForgetChecksum] has them; empty at an offset without a message.
	// The rows are those of these messages alone. None: of whatever messages are there.
	Checksums []string `json:"checksums,omitempty"`
	// Lost is what versions have heeded that this topic has lost: with this message an operator has decided to go on without it.
	Lost *Heeded `json:"lost,omitempty"`
}

// Heeded is how much of the forget topic a plan heeds, by which a later run knows that the topic has lost something.
type Heeded struct {
	Entries int    `json:"entries"`        // how many messages, each counted once
	Last    string `json:"last,omitempty"` // the key of the last of them; empty: not known
}

// ForgetChecksum returns the checksum by which a message on the forget topic knows a message of the examples, whose value is given.
func ForgetChecksum(value []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)))
}

// Key is the key of the message on the forget topic.
func (f *Forget) Key() string { return "forget/" + DigestJSON(f).Short() }

// Message encodes f for the forget topic. The key says what f says, so compaction loses nothing.
func (f *Forget) Message() Message {
	return jsonMessage(KindForget, "", f.Key(), f)
}

// Check returns an error for impossible rows, and for checksums of other messages.
func (f *Forget) Check() error {
	if err := f.Rows.check(); err != nil {
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

// ForgottenRows are rows of the examples topic: all rows of the messages in a span, or some of one message.
type ForgottenRows struct {
	Partition int   `json:"partition"`       // its number
	From      int64 `json:"from"`            // the offset of the first message
	To        int64 `json:"to"`              // the offset after the last
	First     int   `json:"first,omitempty"` // of one message, the first row
	End       int   `json:"end,omitempty"`   // of one message, the row after the last; 0: all rows of all messages
}

// Span returns where the messages are.
func (r ForgottenRows) Span() Span { return Span{r.Partition, r.From, r.To} }

// Forgotten is a set of rows of the examples topic, in the order of their offsets. No row is in it twice. The zero value has none.
type Forgotten []ForgottenRows

// Union returns the rows of f and of others, which may be in any order.
func (f Forgotten) Union(others Forgotten) (union Forgotten) {
	all := slices.Concat(f, others)
	all = slices.DeleteFunc(all, func(r ForgottenRows) bool { return r.Span().Empty() })
	// Where rows of one message and all of it begin together, all of it is first: it covers the others.
	slices.SortFunc(all, func(a, b ForgottenRows) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From), cmp.Compare(min(a.End, 1), min(b.End, 1)), cmp.Compare(a.First, b.First))
	})
	for _, r := range all {
		last := len(union) - 1
		if last < 0 || union[last].Partition != r.Partition {
			union = append(union, r)
			continue
		}
		switch before := &union[last]; {
		case before.End == 0 && r.End == 0 && r.From <= before.To:
			before.To = max(before.To, r.To)
		case before.End == 0 && r.To <= before.To: // covered
		case before.End > 0 && r.End > 0 && r.From == before.From && r.First <= before.End:
			before.End = max(before.End, r.End)
		default:
			union = append(union, r)
		}
	}
	return union
}

// Within returns the rows that are in spans, which must be disjoint.
func (f Forgotten) Within(spans Spans) (within Forgotten) {
	for _, r := range f {
		for _, s := range spans {
			if cut := (Span{r.Partition, max(r.From, s.From), min(r.To, s.To)}); s.Partition == r.Partition && !cut.Empty() {
				within = append(within, ForgottenRows{cut.Partition, cut.From, cut.To, r.First, r.End})
			}
		}
	}
	return within.Union(nil)
}

// Spans returns where the messages are that have the rows.
func (f Forgotten) Spans() (spans Spans) {
	for _, r := range f {
		if last := len(spans) - 1; last < 0 || spans[last] != r.Span() { // rows of one message follow each other
			spans = append(spans, r.Span())
		}
	}
	return spans
}

// Covers reports whether all rows of others are in f.
func (f Forgotten) Covers(others Forgotten) bool { return slices.Equal(f.Union(others), f.Union(nil)) }

// Without returns what of f is not all in others.
func (f Forgotten) Without(others Forgotten) (left Forgotten) {
	for _, r := range f {
		if !others.Covers(Forgotten{r}) {
			left = append(left, r)
		}
	}
	return left
}

// In calls with for the ranges of rows, from first to the one before end, of a message with so many rows.
func (f Forgotten) In(partition int, offset int64, rows int, with func(first, end int)) {
	i, _ := slices.BinarySearchFunc(f, offset, func(r ForgottenRows, offset int64) int {
		return cmp.Or(cmp.Compare(r.Partition, partition), cmp.Compare(r.To, offset+1))
	})
	for ; i < len(f) && f[i].Partition == partition && f[i].From <= offset; i++ {
		if f[i].End == 0 {
			with(0, rows)
		} else if f[i].First < rows {
			with(f[i].First, min(f[i].End, rows))
		}
	}
}

// Without returns the examples, which are at an offset of a partition, such that forgotten rows say nothing of what they were: they weigh 0, have no
// label and no targets, and their features are 0. Their number and split stay. It shares the memory of e, and is released in its place.
func (e *Examples) Without(forgotten Forgotten, partition int, offset int64) *Examples {
	left := e
	forgotten.In(partition, offset, e.Rows, func(first, end int) {
		if left == e {
			without := *e
			without.forgotten = make([]bool, e.Rows)
			left = &without
		}
		for row := first; row < end; row++ {
			left.forgotten[row] = true
		}
	})
	return left
}

// forgot reports whether a row was forgotten.
func (e *Examples) forgot(row int) bool { return e.forgotten != nil && e.forgotten[row] }

// check returns an error for impossible values, and for rows that are not in order.
func (f Forgotten) check() error {
	for _, r := range f {
		switch {
		case r.Partition < 0 || r.From < 0 || r.Span().Empty():
			return fmt.Errorf("forgotten rows of %v: expected a partition and offsets of at least 0, and a message", r.Span())
		case r.First < 0 || r.End < 0 || r.First > 0 && r.End <= r.First || r.End > 0 && r.Span().Len() != 1:
			return fmt.Errorf("forgotten rows %d to %d of %v: expected rows of one message", r.First, r.End, r.Span())
		}
	}
	if !slices.Equal(f, f.Union(nil)) {
		return fmt.Errorf("forgotten rows are not in order, or are twice")
	}
	return nil
}
