package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// Repaired is one place of the log that was damaged.
type Repaired struct {
	// File is the path of the file, and Position the byte at which the damage began.
	File     string
	Position int64
	// Topic and Partition are those of the file. Topic is empty if the file is not of a partition.
	Topic     string
	Partition int
	// From and To are the offsets whose messages are lost: [From, To). There are none if what was damaged could be told from the rest.
	From, To int64
}

// Repair makes a log that Verify accepts of one that is damaged. All messages of whole batches stay, with their offsets. Offsets
// whose messages are lost stay empty: no other message gets them. It returns what it has repaired: nothing if the log is whole.
// The broker must not run. A process that is killed meanwhile leaves a log that can be repaired again.
func (l *Log) Repair() ([]Repaired, error) {
	repaired, err := l.repairState()
	if err != nil {
		return repaired, err
	}
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

// repair is Repair for one partition. The buffer is for its files.
func (p *partition) repair(buffer *[]byte) (all []Repaired, err error) {
	c := p.contents()
	for range c.segments {
		if err := c.load(buffer); err != nil {
			return all, err
		}
		whole, repaired := c.repair()
		if len(repaired) > 0 {
			// The index is written again when the log is verified.
			if err := replaceFile(c.segment().data, whole); err != nil {
				return all, fmt.Errorf("repair %s: %w", c.segment().data, err)
			}
			if err := os.Chtimes(c.segment().data, c.segment().modified, c.segment().modified); err != nil { // retention goes by it
				return all, err
			}
			all = append(all, repaired...)
		}
	}
	return all, nil
}

// repair returns what the current segment is to hold, and what was damaged.
func (c *contents) repair() (whole []byte, repaired []Repaired) {
	for at := 0; at < len(c.data); {
		if c.wrong(at) == "" {
			n := c.pass(at)
			whole = append(whole, c.data[at:at+n]...)
			at += n
			continue
		}
		if c.torn(at) {
			break // it is cut off whenever the log is opened
		}
		from := c.expected(at)
		next, to := c.find(at)
		found := Repaired{File: c.segment().data, Position: int64(at), Topic: c.partition.topic.name, Partition: c.partition.number,
			From: from, To: from}
		if b := c.restored(at, next, to); b != nil {
			whole = append(whole, b...)
			c.next = b.end()
		} else {
			if next == len(c.data) {
				to = min(to, c.claimed(batch(c.data[at:]), from))
			}
			for _, b := range newEmpty(from, to) {
				whole = append(whole, b...)
			}
			c.next, found.To = max(c.next, to), to
		}
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

// restored returns a batch whose header was damaged where its checksum does not reach: in its offset, its length or its version. The
// bytes are [from, to) of the segment, and the offset after them is until, or a later one.
func (c *contents) restored(from, to int, until int64) batch {
	damaged := c.data[from:to]
	if len(damaged) < recordbatch.HeaderBytes {
		return nil
	}
	b := batch(slices.Clone(damaged))
	b[recordbatch.AtMagic] = 2
	binary.BigEndian.PutUint32(b[recordbatch.AtLength:], uint32(len(b)-recordbatch.BeforeLength))
	if !b.sound() || !b.intact() {
		return nil
	}
	expected, end := c.expected(from), to == len(c.data)
	if !bytes.Equal(b, damaged) && b.base() >= expected && (b.end() == until || end && b.end() <= until) {
		return b // its offset is right
	}
	binary.BigEndian.PutUint64(b, uint64(expected))
	if b.end() == until || end && b.end() <= until {
		return b
	}
	return nil
}

// claimed returns an offset that no message of damaged batches at the end of a segment had, and none after it: the one
// after the last that the header names, if it can be right, or the largest that is possible.
func (c *contents) claimed(damaged batch, from int64) int64 {
	possible := c.records(len(damaged))
	n := possible
	if len(damaged) >= recordbatch.HeaderBytes && damaged.sound() && damaged.bytes() == int64(len(damaged)) && damaged.base() == from {
		n = 0
		for _, named := range []int64{int64(damaged.int32(recordbatch.AtLastDelta)) + 1, int64(damaged.count())} {
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
