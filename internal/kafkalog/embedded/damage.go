package embedded

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// DamagedError means that a file of the log is damaged. Nothing was changed: [files.repair] keeps the intact messages.
type DamagedError struct {
	// File is the path of the file, and Position the byte offset of the damage.
	File     string
	Position int64
	// Topic and Partition are those of the file. Topic is empty if the file is not of a partition.
	Topic     string
	Partition int
	// Offset is the first affected offset.
	Offset int64
	// Reason says what is wrong.
	Reason string
}

func (e *DamagedError) Error() string {
	where := ""
	if e.Topic != "" {
		where = fmt.Sprintf(", from offset %d on", e.Offset) // the folder has the name of the partition
	}
	return fmt.Sprintf("%s is damaged at byte %d%s: %s; nothing was changed; `stagewise repair -c FILE` keeps the intact batches", e.File,
		e.Position, where, e.Reason)
}

// verify returns a *DamagedError for each partition with a damaged batch, and for a damaged list of topics. A torn batch at the
// end, left by a killed process, is no damage. The broker must not run, because it truncates a file at the first damaged batch.
//
// It reads the whole log, as the broker does next: most of the time is disk I/O, and afterwards the broker finds the files
// in the page cache. An index that does not match its segment is rebuilt from the segment.
func (l *files) verify() error {
	var buffer []byte
	return l.each(func(p partition) error { return p.verify(&buffer) })
}

// verify is Verify for one partition. The buffer is for file contents.
func (p *partition) verify(buffer *[]byte) error {
	c := p.contents()
	for range c.segments {
		if err := c.load(buffer); err != nil {
			return err
		}
		for at := 0; at < len(c.data); {
			reason := c.wrong(at)
			if reason != "" {
				if c.torn(at) {
					break
				}
				return c.damaged(at, reason)
			}
			at += c.pass(at)
		}
		if err := c.index(); err != nil {
			return err
		}
	}
	return c.verifyEnd()
}

// contents reads the segments of a partition in order.
type contents struct {
	partition *partition
	segments  []segment
	written   int64 // end of the log at the last snapshot, or 0. Only before it may cleaning have left gaps
	next      int64 // the offset after the last whole batch
	// compressed means that an earlier batch is compressed, so that its size does not limit the number of its records.
	compressed bool

	loaded int    // number of segments, including the current one
	data   []byte // content of the current segment
	flags  []byte // flags of its whole batches so far, as in the index
	limit  int64  // no batch of the segment ends after this offset
}

// contents skips empty segments: kfake ignores them, and a process that was killed may have left one.
func (p *partition) contents() *contents {
	c := &contents{partition: p, segments: slices.DeleteFunc(slices.Clone(p.segments), func(s segment) bool { return s.bytes == 0 })}
	if s := p.snapshot(); s != nil {
		c.written = s.HighWatermark
	}
	return c
}

// load reads the next segment.
func (c *contents) load(buffer *[]byte) error {
	c.loaded++
	c.flags, c.limit = c.flags[:0], math.MaxInt64
	if !c.last() {
		c.limit = c.segments[c.loaded].base
	}
	f, err := os.Open(c.segment().data)
	if err != nil {
		return err
	}
	defer f.Close()
	if n := int(c.segment().bytes); cap(*buffer) < n {
		*buffer = make([]byte, n)
	}
	c.data = (*buffer)[:c.segment().bytes]
	if _, err := io.ReadFull(f, c.data); err != nil {
		return fmt.Errorf("read %s: %w", c.segment().data, err)
	}
	if c.segment().base < c.next {
		return c.damaged(0, fmt.Sprintf("it begins before offset %d, where the file before it ends", c.next))
	}
	return nil
}

func (c *contents) segment() *segment { return &c.segments[c.loaded-1] }
func (c *contents) last() bool        { return c.loaded == len(c.segments) }

// expected returns the offset at which a batch starts, unless there is a gap. A segment is named after its first offset.
func (c *contents) expected(at int) int64 {
	if at == 0 {
		return c.segment().base
	}
	return c.next
}

// wrong returns the reason why there is no whole batch with a plausible offset at a byte of the segment; "" if there is
// one.
func (c *contents) wrong(at int) string {
	b, reason := wholeBatch(c.data[at:])
	if reason != "" {
		return reason
	}
	expected := c.expected(at)
	after := c.limit
	switch rest := batch(c.data[at+len(b):]); {
	case len(rest) >= headerBytes:
		after = min(after, rest.base())
	case c.last():
		after = max(expected+int64(b.int32(atLastDelta))+1, c.written)
	}
	gap := at > 0 && b.base() > expected && b.base() < c.written && b.end() <= after
	if b.base() != expected && !gap {
		return fmt.Sprintf("the batch there has offset %d, expected %d", b.base(), expected)
	}
	return ""
}

// wholeBatch returns the batch at the start of data, or the reason why there is none.
func wholeBatch(data []byte) (b batch, reason string) {
	if len(data) < headerBytes {
		return nil, "the header of the batch there is truncated"
	}
	b = batch(data)
	switch {
	case !b.sound():
		return nil, "a batch header is missing"
	case b.bytes() > int64(len(data)):
		return nil, "the batch there is truncated"
	case !b[:b.bytes()].intact():
		return nil, "the checksum of the batch there is wrong"
	}
	return b[:b.bytes()], ""
}

// pass advances past a whole batch, and returns its size.
func (c *contents) pass(at int) int {
	b := batch(c.data[at:])
	c.next = b.end()
	c.compressed = c.compressed || b.compressed()
	c.flags = append(c.flags, b.indexFlags())
	return int(b.bytes())
}

// torn reports whether the rest of the log is a torn batch, left by a killed process. It is not if its length is that of a
// batch followed by others, or its checksum matches.
func (c *contents) torn(at int) bool {
	rest := batch(c.data[at:])
	switch {
	case !c.last():
		return false
	case len(rest) < headerBytes:
		return true
	case !rest.sound() || rest.bytes() <= int64(len(rest)) || rest.base() != c.expected(at) || rest.intact():
		return false
	}
	next, _ := c.find(at)
	return next == len(c.data)
}

// find returns the position and offset of the next whole batch after a damaged one: the end of the segment if there is
// none.
func (c *contents) find(damaged int) (at int, offset int64) {
	expected := c.expected(damaged)
	possible := func(at int) bool {
		b := batch(c.data[at:])
		if b[atMagic] != 2 || b.base() < expected || b.base() > min(c.limit, max(c.written, expected+c.records(at-damaged))) {
			return false
		}
		_, reason := wholeBatch(b)
		return reason == ""
	}
	// The header of a damaged batch is usually correct. An apparent batch inside of it may be the content of a message.
	if b := batch(c.data[damaged:]); len(b) >= headerBytes && b.sound() && b.bytes() <= int64(len(b)) {
		switch at := damaged + int(b.bytes()); {
		case at == len(c.data):
			return at, c.limit
		case at+headerBytes <= len(c.data) && possible(at):
			return at, batch(c.data[at:]).base()
		}
	}
	for at := damaged + 1; at+headerBytes <= len(c.data); at++ {
		if possible(at) {
			return at, batch(c.data[at:]).base()
		}
	}
	return len(c.data), c.limit
}

// minRecordBytes is the length of a record without key, value and headers.
const minRecordBytes = 7

// records returns the maximum number of records in the given number of bytes.
func (c *contents) records(bytes int) int64 {
	if c.compressed {
		return math.MaxInt32
	}
	return int64(bytes)/minRecordBytes + 1
}

// verifyEnd verifies that a log extends to the end of its snapshot.
func (c *contents) verifyEnd() error {
	if c.next >= c.written || len(c.segments) == 0 {
		return nil // without segments everything was deleted
	}
	return c.damaged(len(c.data), fmt.Sprintf("the log ended at offset %d before", c.written))
}

func (c *contents) damaged(at int, reason string) error {
	e := &DamagedError{File: c.segment().data, Position: int64(at), Topic: c.partition.topic.name, Partition: c.partition.number,
		Offset: c.next, Reason: reason}
	if at < len(c.data) {
		e.Offset = max(e.Offset, c.expected(at))
	}
	return e
}

// index rebuilds the index of the segment if it does not match the batches so far.
func (c *contents) index() error {
	path := c.segment().index()
	entries, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	right := len(entries) == len(c.flags)*entryBytes
	for n := 0; right && n < len(c.flags); n++ {
		right = isEntry(entries[n*entryBytes:(n+1)*entryBytes], c.flags[n])
	}
	if right {
		return nil
	}
	entries = entries[:0]
	for _, flags := range c.flags {
		entries = append(entries, newEntry(flags)...)
	}
	return replaceFile(path, entries)
}
