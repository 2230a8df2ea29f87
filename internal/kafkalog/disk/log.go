// Package disk applies retention and compaction to the log files of the embedded broker. kfake, which writes these files,
// does neither safely: it deletes a partition's files before it rewrites them, compacts without regard to
// min.compaction.lag.ms, and with retention may delete the last file of a partition, whose offsets then restart at 0.
//
// If a process is killed at any time, [Log.Restore] repairs the log without losing a retained message.
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

// Log is the directory of kfake's log.
type Log struct {
	// Dir is the path of the directory. It need not exist.
	Dir string

	// Step is called after each change on disk, for tests of killed processes. nil: no call.
	Step func()
}

func (l *Log) changed() {
	if l.Step != nil {
		l.Step()
	}
}

// To rewrite a partition, its directory P is replaced: P.written is filled, P is renamed to P.replaced, P.written to P,
// and P.replaced is deleted. kfake ignores directories with such names.
const (
	writtenSuffix  = ".written"
	replacedSuffix = ".replaced"
)

// Restore rolls back unfinished changes of an earlier process. The broker must not run.
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

// each calls do for each non-empty partition, and joins the errors.
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

// Written reports whether any partition has a message.
func (l *Log) Written() (written bool, err error) {
	err = l.each(func(p partition) error {
		written = written || p.bytes() > 0
		return nil
	})
	return written, err
}

// KeepEnd makes sure that the next offset of an empty partition does not fall below an offset, whatever happens to the
// broker, which may be running. It does nothing for a partition with messages.
func (l *Log) KeepEnd(topic string, number int, end int64) error {
	p := partition{folder: l.folder(topic, number)}
	if err := p.list(); err != nil || end == 0 {
		return err
	}
	// A running broker does not know of the segment that an earlier call has created, and does not delete it with later
	// messages.
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

// Clean applies the topics' retention and compaction settings. It deletes expired segments, and rewrites partitions of
// which at least half can be removed, or anything if the topic is in whole. The broker must not run. A partition that
// can't be cleaned is not changed; the error includes all of them.
func (l *Log) Clean(now time.Time, whole ...string) error {
	return l.each(func(p partition) error {
		plan, err := p.plan(now)
		if err != nil {
			return err
		}
		if plan.worthwhile() || plan.drop > 0 && slices.Contains(whole, p.topic.name) {
			return l.rewrite(plan)
		}
		for _, s := range p.segments[:plan.expired] { // oldest first, so that no gap is left
			if err := s.remove(); err != nil {
				return err
			}
			l.changed()
		}
		return nil
	})
}

// rewrite replaces the directory of a partition by one with the remaining messages.
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

// write writes the remaining messages of a partition to a directory.
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

// Survey is the effects of [Log.Clean].
type Survey struct {
	// Expired are the expired segments, by partition.
	Expired []Expired
	// Bytes is the size of the log, and Waste the number of removable bytes in partitions that would be rewritten.
	Bytes, Waste int64
	// Overdue means that a message has been removable for longer than segment.ms of its topic.
	Overdue bool
}

// worthARestart is the fraction of the log that must be removable to make a restart of the broker worthwhile.
const worthARestart = 1. / 16

// Pays reports whether to stop the broker for Clean, since starting it takes a time in proportion to the log.
func (s Survey) Pays() bool {
	return s.Overdue || s.Waste > 0 && float64(s.Waste) >= worthARestart*float64(s.Bytes)
}

// Expired means that the offsets of a partition before an offset have expired, and that a segment starts there.
type Expired struct {
	Topic     string
	Partition int
	Before    int64
}

// Survey determines the effects of Clean. The broker may run.
func (l *Log) Survey(now time.Time) (Survey, error) {
	var found Survey
	err := l.each(func(p partition) error {
		plan, err := p.plan(now)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the topic was deleted in the meantime
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
