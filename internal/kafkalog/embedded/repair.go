package embedded

import (
	"fmt"
	"math"
	"os"
)

// Repaired is a repaired part of the log.
type Repaired struct {
	// File is the path of the file, and Position the byte offset of the damage.
	File     string
	Position int64
	// Topic and Partition are those of the file.
	Topic     string
	Partition int
	// From and To are the offsets of lost messages: [From, To).
	From, To int64
}

// repair repairs a damaged log so that verify accepts it. All messages of whole batches keep their offsets. Offsets of
// lost messages stay empty: they are not reused. It returns the repaired parts: none if the log is intact. The broker must
// not run. A process killed during the repair leaves a log that can be repaired again.
func (l *files) repair() (repaired []Repaired, err error) {
	var buffer []byte
	err = l.each(func(p partition) error {
		found, err := p.repair(&buffer)
		if repaired = append(repaired, found...); err == nil && len(found) > 0 {
			l.changed()
		}
		return err
	})
	return repaired, err
}

// repair is Repair for one partition. The buffer is for file contents.
func (p *partition) repair(buffer *[]byte) (all []Repaired, err error) {
	c := p.contents()
	for range c.segments {
		if err := c.load(buffer); err != nil {
			return all, err
		}
		whole, repaired := c.repair()
		if len(repaired) > 0 {
			// Verification rebuilds the index.
			if err := replaceFile(c.segment().data, whole); err != nil {
				return all, fmt.Errorf("repair %s: %w", c.segment().data, err)
			}
			if err := os.Chtimes(c.segment().data, c.segment().modified, c.segment().modified); err != nil { // retention depends on it
				return all, err
			}
			all = append(all, repaired...)
		}
	}
	return all, nil
}

// repair returns the repaired content of the current segment, and the damage.
func (c *contents) repair() (whole []byte, repaired []Repaired) {
	for at := 0; at < len(c.data); {
		if c.wrong(at) == "" {
			n := c.pass(at)
			whole = append(whole, c.data[at:at+n]...)
			at += n
			continue
		}
		if c.torn(at) {
			break // truncated when the log is opened
		}
		from := c.expected(at)
		next, to := c.find(at)
		found := Repaired{File: c.segment().data, Position: int64(at), Topic: c.partition.topic.name, Partition: c.partition.number,
			From: from}
		if next == len(c.data) {
			to = min(to, c.claimed(batch(c.data[at:]), from))
		}
		for _, b := range newEmpty(from, to) {
			whole = append(whole, b...)
		}
		c.next, found.To = max(c.next, to), to
		repaired = append(repaired, found)
		at = next
	}
	if c.last() && c.next < c.written {
		repaired = append(repaired, Repaired{
			File: c.segment().data, Position: int64(len(c.data)), Topic: c.partition.topic.name, Partition: c.partition.number, From: c.next,
			To: c.written,
		})
		for _, b := range newEmpty(c.next, c.written) {
			whole = append(whole, b...)
		}
		c.next = c.written
	}
	return whole, repaired
}

// claimed returns an offset above those of all messages in damaged batches at the end of a segment: the one after the last
// offset in the header, if plausible, or the largest possible.
func (c *contents) claimed(damaged batch, from int64) int64 {
	possible := c.records(len(damaged))
	n := possible
	if len(damaged) >= headerBytes && damaged.sound() && damaged.bytes() == int64(len(damaged)) && damaged.base() == from {
		n = 0
		for _, named := range []int64{int64(damaged.int32(atLastDelta)) + 1, int64(damaged.count())} {
			if named <= possible {
				n = max(n, named)
			}
		}
		if n == 0 {
			n = possible
		}
	}
	return max(from+min(n, math.MaxInt64-from), c.written)
}
