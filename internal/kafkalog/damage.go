package kafkalog

import (
	"fmt"
	"iter"
	"math"
)

// DamagedError means that a file of the log is damaged. Nothing was changed: [Repair] keeps the intact messages.
type DamagedError struct {
	// File is the path of the file, and Position the byte offset of the damage.
	File     string
	Position int64
	// Topic and Partition are those of the file. Topic is empty if the file is not of a partition.
	Topic     string
	Partition int
	Offset    int64  // the first affected offset
	Reason    string // what is wrong
}

func (e *DamagedError) Error() string {
	where := ""
	if e.Topic != "" {
		where = fmt.Sprintf(", from offset %d on", e.Offset) // the folder has the name of the partition
	}
	return fmt.Sprintf("%s is damaged at byte %d%s: %s; nothing was changed; `stagewise repair -c FILE` keeps the intact batches", e.File,
		e.Position, where, e.Reason)
}

func (p *partition) damaged(s segment, at int, offset int64, reason string) error {
	return &DamagedError{File: s.data, Position: int64(at), Topic: p.topic.name, Partition: p.number, Offset: offset, Reason: reason}
}

// part is a part of a segment: a batch, or damaged bytes.
type part struct {
	at, end  int    // bytes [at, end)
	from, to int64  // offsets [from, to)
	damage   string // why there is no batch; "": there is one
	batch    batch
}

// parts returns the parts of the content of a segment, in order. It omits a torn batch at the end of the log, left by a killed process.
func (p *partition) parts(number int, data []byte) iter.Seq[part] {
	limit := int64(math.MaxInt64) // no message of the segment has this offset
	if number+1 < len(p.segments) {
		limit = p.segments[number+1].base
	}
	return func(yield func(part) bool) {
		next := part{to: p.segments[number].base}
		for next.end < len(data) {
			next = part{at: next.end, from: next.to}
			next.batch, next.damage = batchAt(data[next.at:])
			if next.damage == "" && next.batch.FirstOffset != next.from {
				next.damage = fmt.Sprintf("the batch there has offset %d, expected %d", next.batch.FirstOffset, next.from)
			}
			switch {
			case next.damage == "":
				next.end, next.to = next.at+next.batch.size(), next.batch.end()
			case limit == math.MaxInt64 && isTorn(data[next.at:], next.from):
				return
			default:
				size, to := findBatch(data[next.at:], next.from, limit)
				next.end, next.to = next.at+size, to
			}
			if !yield(next) {
				return
			}
		}
	}
}

// isTorn reports whether data, from an offset on, is a torn batch. It returns false if data contains the whole batch or a later one, or
// if the checksum matches.
func isTorn(data []byte, from int64) bool {
	b, ok := headerAt(data)
	if len(data) < headerBytes {
		return true
	}
	if !ok || b.size() <= len(data) || b.FirstOffset != from || uint32(b.CRC) == checksumOf(data) {
		return false
	}
	at, _ := findBatch(data, from, math.MaxInt64)
	return at == len(data)
}

// findBatch returns the position and the offset of the first whole batch after a damaged one at offset from. Without one, it returns the
// end of data and the limit of the segment; in the last segment, a limit estimated from data.
func findBatch(data []byte, from, limit int64) (at int, offset int64) {
	isBatch := func(at int) bool {
		if at+headerBytes > len(data) || data[at+atMagic] != 2 {
			return false
		}
		b, reason := batchAt(data[at:])
		offset = b.FirstOffset
		return reason == "" && offset >= from && offset <= limit
	}
	claimed := int64(len(data)) // more messages than data contains, unless they are compressed
	// The header of a damaged batch is usually correct. An apparent batch inside of it may be the content of a message.
	b, ok := headerAt(data)
	if ok && isBatch(b.size()) {
		return b.size(), offset
	}
	if ok && b.size() == len(data) {
		if n := max(int64(b.LastOffsetDelta)+1, int64(b.NumRecords)); n <= claimed || b.Attributes&compressedBits != 0 {
			claimed = n
		}
	} else {
		for at := 1; at+headerBytes <= len(data); at++ {
			if isBatch(at) {
				return at, offset
			}
		}
	}
	if limit == math.MaxInt64 {
		limit = from + claimed
	}
	return len(data), limit
}

// Repaired is a repaired part of the log.
type Repaired struct {
	// File is the path of the file, and Position the byte offset of the damage.
	File     string
	Position int64
	// Topic and Partition are those of the file.
	Topic     string
	Partition int
	From, To  int64 // the offsets of lost messages: [From, To)
}

// repair repairs a damaged partition so that open accepts it. All messages of whole batches keep their offsets. Offsets of lost messages
// stay empty: they are not reused. It returns the repaired parts: none if the partition is intact. The broker must not run. A process that
// is killed during the repair leaves a log that can be repaired again.
func (p *partition) repair() (all []Repaired, err error) {
	written := p.snapshot().HighWatermark
	for i, s := range p.segments {
		data, err := p.content(s)
		if err != nil {
			return all, err
		}
		var whole []byte
		end, repaired := s.base, len(all)
		lose := func(at int, from, to int64) {
			all = append(all, Repaired{File: s.data, Position: int64(at), Topic: p.topic.name, Partition: p.number, From: from, To: to})
			whole = append(whole, newEmpty(from, to)...)
		}
		for part := range p.parts(i, data) {
			if part.damage == "" {
				whole = append(whole, part.batch.raw...)
			} else {
				lose(part.at, part.from, part.to)
			}
			end = part.to
		}
		if i == len(p.segments)-1 && end < written {
			lose(len(data), end, written)
		}
		if len(all) == repaired {
			continue
		}
		if err := replaceFile(s.data, whole, s.modified); err != nil { // opening the partition rebuilds the index
			return all, fmt.Errorf("repair %s: %w", s.data, err)
		}
	}
	return all, nil
}
