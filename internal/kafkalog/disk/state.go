package disk

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// closedFile is in the directory of a log whose broker was shut down cleanly. It has a copy of each file other than
// segments and indexes: settings, members, group offsets, and the bounds of partitions. Those files have no checksums, and
// a wrong digit in one of them can hide a topic.
const closedFile = "closed"

// copied is a file and its copy.
type copied struct {
	// Modified distinguishes a file that another program has written since from a damaged one.
	Modified time.Time `json:"modified"`
	Content  []byte    `json:"content"`
}

// Seal is called after the broker was stopped. Until Unseal, Verify and Repair compare files with their copies. Without
// Seal, files are trusted, as after a kill.
func (l *Log) Seal() error {
	copies := map[string]copied{}
	err := filepath.WalkDir(l.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isState(path) {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(l.Dir, path)
		copies[filepath.ToSlash(name)] = copied{info.ModTime(), content}
		return err
	})
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(copies)
	if err != nil {
		return err
	}
	checksum := crc32.Checksum(encoded, crc32.MakeTable(crc32.Castagnoli))
	return replaceFile(filepath.Join(l.Dir, closedFile), binary.BigEndian.AppendUint32(encoded, checksum))
}

// isState reports whether a file has a copy.
func isState(path string) bool {
	switch filepath.Ext(path) {
	case dataSuffix, indexSuffix, temporarySuffix:
		return false
	}
	return filepath.Base(path) != closedFile && !strings.Contains(path, writtenSuffix) && !strings.Contains(path, replacedSuffix)
}

// Unseal is called before the files are changed.
func (l *Log) Unseal() error {
	err := os.Remove(filepath.Join(l.Dir, closedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// different calls do for each file that differs from its copy although it was not written since.
func (l *Log) different(do func(path string, is, was []byte, modified time.Time) error) error {
	sealed, err := os.ReadFile(filepath.Join(l.Dir, closedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n := len(sealed) - 4
	var copies map[string]copied
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != crc32.Checksum(sealed[:n], crc32.MakeTable(crc32.Castagnoli)) ||
		json.Unmarshal(sealed[:n], &copies) != nil {
		return nil // itself damaged
	}
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(copies)) {
		c, path := copies[name], filepath.Join(l.Dir, filepath.FromSlash(name))
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Equal(c.Modified) {
			continue
		}
		content, err := os.ReadFile(path)
		if err == nil && string(content) != string(c.Content) {
			err = do(path, content, c.Content, c.Modified)
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// verifyState compares the state files with their copies.
func (l *Log) verifyState() error {
	return l.different(func(path string, is, was []byte, _ time.Time) error {
		return &DamagedError{File: path, Position: differs(is, was), Reason: "it differs from what the broker wrote"}
	})
}

// repairState replaces damaged state files by their copies.
func (l *Log) repairState() (repaired []Repaired, err error) {
	err = l.different(func(path string, is, was []byte, modified time.Time) error {
		if err := replaceFile(path, was); err != nil {
			return fmt.Errorf("repair %s: %w", path, err)
		}
		repaired = append(repaired, Repaired{File: path, Position: differs(is, was)})
		return os.Chtimes(path, modified, modified)
	})
	return repaired, err
}

// differs returns the position of the first differing byte.
func differs(a, b []byte) int64 {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return int64(n)
}
