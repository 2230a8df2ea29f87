package kafkalog

import (
	"errors"
	"fmt"
)

// files is the directory of kfake's log, to which it applies retention and compaction. kfake does neither safely: it deletes a
// partition's files before it rewrites them, compacts without regard to min.compaction.lag.ms, and with retention may delete the
// last file of a partition, whose offsets then restart at 0. Here each file is replaced atomically, so that a process may be killed at any
// time.
type files struct {
	dir   string           // need not exist
	plans map[string]*plan // the last plans of partitions, by folder
}

// each calls do for each partition, and joins the errors.
func (l *files) each(do func(partition) error) error {
	topics, err := l.topics()
	if err != nil {
		return err
	}
	var failures []error
	var buffer []byte
	for i := range topics {
		for number := range topics[i].partitions {
			p := partition{topic: &topics[i], number: number, folder: l.folder(topics[i].name, number), buffer: &buffer}
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

// open prepares the log for the broker. It returns a *DamagedError for each partition with a damaged batch, and for a damaged
// list of topics. The broker must not run, because it truncates a file at the first damaged batch.
//
// It reads the whole log, as the broker does next: most of the time is disk I/O, and afterwards the broker finds the files
// in the page cache.
func (l *files) open() error {
	return l.each(func(p partition) error { return p.open() })
}

// repair repairs all partitions: see [partition.repair].
func (l *files) repair() (repaired []Repaired, err error) {
	err = l.each(func(p partition) error {
		found, err := p.repair()
		repaired = append(repaired, found...)
		return err
	})
	return repaired, err
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
