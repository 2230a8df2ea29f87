package embedded

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

// files is the directory of kfake's log, to which it applies retention and compaction. kfake does neither safely: it deletes a
// partition's files before it rewrites them, compacts without regard to min.compaction.lag.ms, and with retention may delete the
// last file of a partition, whose offsets then restart at 0. If a process is killed at any time, restore repairs the log without
// losing a retained message.
type files struct {
	dir  string // need not exist
	step func() // called after each change on disk, for tests of killed processes; nil: not called

	surveyed map[string]surveyed // the last surveys of partitions with messages, by folder
}

// surveyed is the plan of a partition, which does not change while its files and its settings do not, for a time.
type surveyed struct {
	plan *plan
	at   time.Time
}

// holds reports whether the plan is that of the partition now.
func (s surveyed) holds(p partition, now time.Time) bool {
	return s.plan != nil && *s.plan.topic == *p.topic && slices.Equal(s.plan.segments, p.segments) && now.Sub(s.at) < p.topic.lasts()
}

func (l *files) changed() {
	if l.step != nil {
		l.step()
	}
}

// To rewrite a partition, its directory P is replaced: P.written is filled, P is renamed to P.replaced, P.written to P,
// and P.replaced is deleted. kfake ignores directories with such names.
const (
	writtenSuffix  = ".written"
	replacedSuffix = ".replaced"
)

// restore rolls back unfinished changes of an earlier process. The broker must not run.
func (l *files) restore() error {
	partitions := filepath.Join(l.dir, "partitions")
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

// prepare makes opening the log cheap after a process was killed: see snapshot. The broker must not run.
func (l *files) prepare() error {
	return l.each(func(p partition) error { return p.prepare() })
}

// each calls do for each non-empty partition, and joins the errors.
func (l *files) each(do func(partition) error) error {
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

// written reports whether any partition has a message.
func (l *files) written() (written bool, err error) {
	err = l.each(func(p partition) error {
		written = written || p.bytes() > 0
		return nil
	})
	return written, err
}

// keepEnd makes sure that the next offset of an empty partition does not fall below an offset, whatever happens to the
// broker, which may be running. It does nothing for a partition with messages.
func (l *files) keepEnd(topic string, number int, end int64) error {
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

// clean applies the topics' retention and compaction settings. It deletes expired segments, and rewrites partitions of
// which at least half can be removed, or anything if the topic is in whole. The broker must not run. A partition that
// can't be cleaned is not changed; the error includes all of them.
func (l *files) clean(now time.Time, whole ...string) error {
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
func (l *files) rewrite(p *plan) error {
	written, replaced := p.folder+writtenSuffix, p.folder+replacedSuffix
	if err := l.write(p, written); err != nil {
		return errors.Join(err, os.RemoveAll(written))
	}
	for _, move := range [][2]string{{p.folder, replaced}, {written, p.folder}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return errors.Join(err, l.restore())
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
func (l *files) write(p *plan, folder string) error {
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

func (l *files) writeSegments(p *plan, folder string) (err error) {
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

// survey is the effects of [files.clean].
type survey struct {
	expired      []expired // segments, by partition
	bytes, waste int64     // the size of the log, and the removable bytes in partitions that would be rewritten
	overdue      bool      // a message has been removable for longer than segment.ms of its topic
}

// worthARestart is the fraction of the log that must be removable to make a restart of the broker worthwhile.
const worthARestart = 1. / 16

// pays reports whether to stop the broker for Clean, since starting it takes a time in proportion to the log.
func (s survey) pays() bool {
	return s.overdue || s.waste > 0 && float64(s.waste) >= worthARestart*float64(s.bytes)
}

// expired means that the offsets of a partition before an offset have expired, and that a segment starts there.
type expired struct {
	topic     string
	partition int
	before    int64
}

// survey determines the effects of clean. It reads only partitions that have changed, or of which messages may have expired. The
// broker may run.
func (l *files) survey(now time.Time) (survey, error) {
	var found survey
	before := l.surveyed
	l.surveyed = map[string]surveyed{}
	err := l.each(func(p partition) error {
		last := before[p.folder]
		if !last.holds(p, now) {
			plan, err := p.plan(now)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the topic was deleted in the meantime
			}
			if err != nil {
				return err
			}
			plan.compaction = nil // has all keys
			last = surveyed{plan, now}
		}
		l.surveyed[p.folder] = last
		plan := last.plan
		found.bytes += p.bytes()
		if plan.expired > 0 {
			found.expired = append(found.expired, expired{p.topic.name, p.number, p.segments[plan.expired].base})
		}
		if plan.worthwhile() {
			found.waste += plan.drop
			found.overdue = found.overdue || plan.overdue
		}
		return nil
	})
	return found, err
}
