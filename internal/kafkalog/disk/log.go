// Package disk applies the retention and compaction of the embedded broker's topics to the files of its log. kfake, which writes
// these files, can do neither safely: it deletes a partition's files before it writes them again, compacts without regard to
// min.compaction.lag.ms, and with retention may delete the last file of a partition, whose offsets then begin at 0 again.
//
// If a process is killed at any moment, [Log.Restore] repairs the log without losing a retained message.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Log is the folder in which kfake keeps its log.
type Log struct {
	// Dir is the folder's path. It need not exist.
	Dir string

	// Step is called after each change on disk, for tests of killed processes. nil: no call.
	Step func()
}

func (l *Log) changed() {
	if l.Step != nil {
		l.Step()
	}
}

// To write a partition again, its folder P is replaced: P.written is filled, P becomes P.replaced, P.written becomes P, and
// P.replaced is deleted. kfake does not look at folders with such names.
const (
	writtenSuffix  = ".written"
	replacedSuffix = ".replaced"
)

// Restore undoes what an earlier process began and did not end. The broker must not run.
func (l *Log) Restore() error {
	partitions := filepath.Join(l.Dir, "partitions")
	entries, err := os.ReadDir(partitions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(partitions, entry.Name())
		if folder, ok := strings.CutSuffix(path, replacedSuffix); ok {
			if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
				if err := os.Rename(path, folder); err != nil {
					return err
				}
				l.changed()
			}
		}
		if strings.HasSuffix(path, replacedSuffix) || strings.HasSuffix(path, writtenSuffix) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			l.changed()
		}
	}
	return nil
}

// Prepare makes opening the log cheap after a process was killed: see snapshot. The broker must not run.
func (l *Log) Prepare() error {
	return l.each(func(p partition) error { return p.prepare() })
}

// each calls do for each partition that has messages, and joins the errors.
func (l *Log) each(do func(partition) error) error {
	topics, err := l.topics()
	if err != nil {
		return err
	}
	var failures []error
	for i := range topics {
		for number := range topics[i].partitions {
			p := partition{topic: &topics[i], number: number, folder: l.folder(topics[i].name, number)}
			err := p.list()
			if err == nil {
				err = do(p)
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s[%d]: %w", topics[i].name, number, err))
			}
		}
	}
	return errors.Join(failures...)
}

// Written reports whether a message has been written to any partition.
func (l *Log) Written() (written bool, err error) {
	err = l.each(func(p partition) error {
		written = written || p.bytes() > 0
		return nil
	})
	return written, err
}

// KeepEnd makes sure that the next offset of a partition without messages is not below an offset, whatever becomes of
// the broker, which may run. For a partition that has messages it does nothing.
func (l *Log) KeepEnd(topic string, number int, end int64) error {
	p := partition{folder: l.folder(topic, number)}
	if err := p.list(); err != nil || end == 0 {
		return err
	}
	// A running broker does not know of the segment that an earlier call has made, and does not delete it with the messages after it.
	for _, s := range p.segments {
		if empty, err := s.endsWithoutMessages(end); err != nil || !empty {
			return err
		}
	}
	earlier := p.segments
	if err := p.keepEnd(end); err != nil {
		return err
	}
	for _, s := range earlier {
		if err := s.remove(); err != nil {
			return err
		}
	}
	return nil
}

// Clean deletes what the topics' settings allow. Segments that have expired go, and partitions are written again if at least half
// of them goes, or anything of a topic that is among whole. The broker must not run. A partition that can't be cleaned
// stays as it is; the error names all of them.
func (l *Log) Clean(now time.Time, whole ...string) error {
	return l.each(func(p partition) error {
		plan, err := p.plan(now)
		if err != nil {
			return err
		}
		if plan.worthwhile() || plan.drop > 0 && slices.Contains(whole, p.topic.name) {
			return l.rewrite(plan)
		}
		for _, s := range p.segments[:plan.expired] { // the oldest first: what is left has no gap
			if err := s.remove(); err != nil {
				return err
			}
			l.changed()
		}
		return nil
	})
}

// rewrite replaces the folder of a partition with one that has what stays.
func (l *Log) rewrite(p *plan) error {
	written, replaced := p.folder+writtenSuffix, p.folder+replacedSuffix
	if err := l.write(p, written); err != nil {
		return errors.Join(err, os.RemoveAll(written))
	}
	for _, move := range [][2]string{{p.folder, replaced}, {written, p.folder}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return errors.Join(err, l.Restore())
		}
		l.changed()
	}
	if err := syncFolder(filepath.Dir(p.folder)); err != nil {
		return err
	}
	err := os.RemoveAll(replaced)
	l.changed()
	return err
}

// write writes what stays of a partition into a folder.
func (l *Log) write(p *plan, folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	l.changed()
	if err := l.writeSegments(p, folder); err != nil {
		return err
	}
	now := partition{topic: p.topic, number: p.number, folder: folder}
	if err := now.list(); err != nil {
		return err
	}
	if err := now.takeSnapshot(p.snapshot()); err != nil {
		return err
	}
	l.changed()
	return syncFolder(folder)
}

func (l *Log) writeSegments(p *plan, folder string) (err error) {
	w := writer{folder: folder, limit: p.topic.segmentBytes}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, s := range p.segments[p.expired:] {
		w.modified = s.modified
		index, err := os.ReadFile(s.index())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		n := 0
		if _, err := s.batches(func(b batch) error {
			entry := newEntry(b.indexFlags())
			if at := n * entryBytes; at+entryBytes <= len(index) {
				entry = index[at : at+entryBytes]
			}
			n++
			if stays := p.stays(b); stays != nil {
				defer l.changed()
				return w.write(stays, entry)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Survey is what [Log.Clean] would do.
type Survey struct {
	// Expired are the segments that have expired, by partition.
	Expired []Expired
	// Bytes is how much the log has in all, and Waste how much would go of partitions that would be written again.
	Bytes, Waste int64
	// Overdue means that a message has been due for longer than segment.ms of its topic.
	Overdue bool
}

// worthARestart is the part of the log that must go to make a restart of the broker worthwhile.
const worthARestart = 1. / 16

// Pays reports whether it pays to stop the broker for Clean, as starting it takes a time in proportion to the log.
func (s Survey) Pays() bool {
	return s.Overdue || s.Waste > 0 && float64(s.Waste) >= worthARestart*float64(s.Bytes)
}

// Expired says that the offsets of a partition before one have expired, and that a segment begins there.
type Expired struct {
	Topic     string
	Partition int
	Before    int64
}

// Survey finds out what Clean would do. The broker may run.
func (l *Log) Survey(now time.Time) (Survey, error) {
	var found Survey
	err := l.each(func(p partition) error {
		plan, err := p.plan(now)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the topic was deleted meanwhile
		}
		if err != nil {
			return err
		}
		found.Bytes += p.bytes()
		if plan.expired > 0 {
			found.Expired = append(found.Expired, Expired{p.topic.name, p.number, p.segments[plan.expired].base})
		}
		if plan.worthwhile() {
			found.Waste += plan.drop
			found.Overdue = found.Overdue || plan.overdue
		}
		return nil
	})
	return found, err
}
