package disk

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// DamagedError means that a file of the log is damaged. Nothing was changed: [Log.Repair] keeps the intact messages.
type DamagedError struct {
	// File is the path of the file, and Position the byte at which the damage begins.
	File     string
	Position int64
	// Topic and Partition are those of the file. Topic is empty if the file is not of a partition.
	Topic     string
	Partition int
	// Offset is the first that is in doubt.
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

// Verify returns a *DamagedError for each partition with a batch that is not as it was written, and for each file of settings or
// positions. The end of a batch that was being written when the process was killed is no damage. The broker must not run, as it
// cuts a file off at the first batch that is damaged.
//
// It reads the whole log, as the broker does next: most of the time is that of the disk, and then the broker finds the files in the
// page cache. An index that does not match its segment is written again, as all of it follows from the segment.
func (l *Log) Verify() error {
	if err := l.verifyState(); err != nil {
		return err
	}
	var buffer []byte
	return l.each(func(p partition) error { return p.verify(&buffer) })
}

// verify is Verify for one partition. The buffer is for its files.
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

// contents reads the segments of a partition one after the other.
type contents struct {
	partition *partition
	segments  []segment
	written   int64 // the end of the log when its snapshot was taken, or 0. Cleaning may have left gaps below, and nowhere else
	next      int64 // the offset after the last whole batch
	// compressed means that a batch before is compressed, so that its size says nothing about the number of its records.
	compressed bool

	loaded int    // how many segments, the current one included
	data   []byte // of the current segment
	flags  []byte // of its whole batches before, as in the index
	limit  int64  // no batch of it ends after this offset
}

// contents leaves out segments without content: kfake ignores them, and one that was begun when the process was killed has none.
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

// expected returns the offset at which a batch begins, unless there is a gap. A segment has the name of the first of its offsets.
func (c *contents) expected(at int) int64 {
	if at == 0 {
		return c.segment().base
	}
	return c.next
}

// wrong says why there is no whole batch at a byte of the segment, with an offset that can be its own. It is empty if there is one.
func (c *contents) wrong(at int) string {
	b, reason := wholeBatch(c.data[at:])
	if reason != "" {
		return reason
	}
	expected := c.expected(at)
	after := c.limit
	switch rest := batch(c.data[at+len(b):]); {
	case len(rest) >= recordbatch.HeaderBytes:
		after = min(after, rest.base())
	case c.last():
		after = max(expected+int64(b.int32(recordbatch.AtLastDelta))+1, c.written)
	}
	gap := at > 0 && b.base() > expected && b.base() < c.written && b.end() <= after
	if b.base() != expected && !gap {
		return fmt.Sprintf("the batch there has offset %d, expected %d", b.base(), expected)
	}
	return ""
}

// wholeBatch returns the batch that is at the beginning of some bytes, or says why there is none.
func wholeBatch(data []byte) (b batch, reason string) {
	if len(data) < recordbatch.HeaderBytes {
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

// pass goes on behind a whole batch, and returns its size.
func (c *contents) pass(at int) int {
	b := batch(c.data[at:])
	c.next = b.end()
	c.compressed = c.compressed || b.compressed()
	c.flags = append(c.flags, b.indexFlags())
	return int(b.bytes())
}

// torn reports whether the rest of the log is the beginning of one batch, which was being written when the process was killed. It is
// not if its length is that of a batch behind which others are, or if its checksum is that of all of it.
func (c *contents) torn(at int) bool {
	rest := batch(c.data[at:])
	switch {
	case !c.last():
		return false
	case len(rest) < recordbatch.HeaderBytes:
		return true
	case !rest.sound() || rest.bytes() <= int64(len(rest)) || rest.base() != c.expected(at) || rest.intact():
		return false
	}
	next, _ := c.find(at)
	return next == len(c.data)
}

// find returns where the next whole batch after a damaged one begins, and its offset: the end of the segment if there is none.
func (c *contents) find(damaged int) (at int, offset int64) {
	expected := c.expected(damaged)
	possible := func(at int) bool {
		b := batch(c.data[at:])
		if b[recordbatch.AtMagic] != 2 || b.base() < expected || b.base() > min(c.limit, max(c.written, expected+c.records(at-damaged))) {
			return false
		}
		_, reason := wholeBatch(b)
		return reason == ""
	}
	// The header of a damaged batch is right more often than not. What looks like a batch inside of it may be the content of a message.
	if b := batch(c.data[damaged:]); len(b) >= recordbatch.HeaderBytes && b.sound() && b.bytes() <= int64(len(b)) {
		switch at := damaged + int(b.bytes()); {
		case at == len(c.data):
			return at, c.limit
		case at+recordbatch.HeaderBytes <= len(c.data) && possible(at):
			return at, batch(c.data[at:]).base()
		}
	}
	for at := damaged + 1; at+recordbatch.HeaderBytes <= len(c.data); at++ {
		if possible(at) {
			return at, batch(c.data[at:]).base()
		}
	}
	return len(c.data), c.limit
}

// minRecordBytes are those of a record without key, value and headers.
const minRecordBytes = 7

// records returns how many records that many bytes may have had.
func (c *contents) records(bytes int) int64 {
	if c.compressed {
		return math.MaxInt32
	}
	return int64(bytes)/minRecordBytes + 1
}

// verifyEnd makes sure that a log still has what it had when its snapshot was taken.
func (c *contents) verifyEnd() error {
	if c.next >= c.written || len(c.segments) == 0 {
		return nil // without a segment all was deleted
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

// index writes the index of the segment again if it is not that of the batches before.
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
