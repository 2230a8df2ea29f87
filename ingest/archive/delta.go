package archive

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// action is an entry of the log (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#actions), in a commit or in a checkpoint.
type action struct {
	Add, Remove *deltaFile
	Meta        *deltaMeta `json:"metaData"`
	Protocol    *deltaProtocol
	Commit      *struct {
		Timestamp int64
		InCommit  int64 `json:"inCommitTimestamp"`
	} `json:"commitInfo"`
}

type deltaFile struct {
	Path    string
	Values  texts `json:"partitionValues"`
	Deleted *struct {
		Storage string `json:"storageType"`
		Vector  string `json:"pathOrInlineDv"`
		Offset  int32
	} `json:"deletionVector"`
}

// texts maps names to texts. In JSON, it is an object or a list of entries.
type texts map[string]*string

func (t *texts) UnmarshalJSON(content []byte) error {
	if content[0] != '[' {
		return json.Unmarshal(content, (*map[string]*string)(t))
	}
	var entries []struct {
		Key   string
		Value *string
	}
	err := json.Unmarshal(content, &entries)
	*t = texts{}
	for _, e := range entries {
		(*t)[e.Key] = e.Value
	}
	return err
}

// id identifies a file with its deletion vector.
func (f deltaFile) id() string {
	if f.Deleted == nil {
		return f.Path
	}
	return fmt.Sprint(f.Path, " ", *f.Deleted)
}

type deltaMeta struct {
	Format        struct{ Provider string }
	Schema        string   `json:"schemaString"`
	Partitions    []string `json:"partitionColumns"`
	Configuration texts
}

type deltaProtocol struct {
	Version  int32    `json:"minReaderVersion"`
	Features []string `json:"readerFeatures"`
}

// logName matches a commit, or a checkpoint, which may have several parts.
var logName = regexp.MustCompile(`^([0-9]{20})(\.json|\.checkpoint(\.[0-9]{10}\.([0-9]{10}))?\.parquet)$`)

// deltaLog lists the files in the log of a Delta Lake table.
type deltaLog struct {
	commits     map[int64]string
	last        int64
	checkpoints map[int64][]string // complete ones
}

// delta returns the files of a version of a table of Delta Lake.
func delta(t *table, at snapshotName) ([]dataFile, error) {
	log, err := t.deltaLog()
	if err != nil {
		return nil, err
	}
	version, err := log.version(t, at)
	if err != nil {
		return nil, err
	}
	s := deltaState{files: map[string]deltaFile{}}
	from := int64(-1)
	for checkpoint := range log.checkpoints {
		if checkpoint <= version {
			from = max(from, checkpoint)
		}
	}
	files := log.checkpoints[from]
	for v := from + 1; v <= version; v++ {
		if log.commits[v] == "" {
			return nil, t.fail("_delta_log has no commit %d, which version %d needs: its log was cleaned up, or it is incomplete", v, version)
		}
		files = append(files, log.commits[v])
	}
	for _, file := range files {
		if err := t.eachAction(file, s.apply); err != nil {
			return nil, err
		}
	}
	return s.live(t)
}

// deltaLog lists the log.
func (t *table) deltaLog() (log deltaLog, err error) {
	log = deltaLog{commits: map[int64]string{}, last: -1, checkpoints: map[int64][]string{}}
	versions, _, err := t.versions("_delta_log", logName)
	if err != nil {
		return log, err
	}
	delete(versions, -1) // other files
	for version, files := range versions {
		parts := map[string][]string{} // of checkpoints, by the number of their parts
		for _, file := range files {
			name := logName.FindStringSubmatch(path.Base(file))
			if name[2] == ".json" {
				log.commits[version], log.last = file, max(log.last, version)
				continue
			}
			of := cmp.Or(name[4], "1")
			parts[of] = append(parts[of], file)
			if n, _ := strconv.Atoi(of); n == len(parts[of]) {
				log.checkpoints[version], log.last = parts[of], max(log.last, version)
			}
		}
	}
	if log.last < 0 {
		return log, t.fail("no table of Delta Lake: expected files such as _delta_log/%020d.json in it", 0)
	}
	return log, nil
}

// version returns the version of a snapshot of the table.
func (log deltaLog) version(t *table, at snapshotName) (int64, error) {
	if at.ID != "" {
		version, err := strconv.ParseInt(at.ID, 10, 64)
		if err != nil || version < 0 || version > log.last {
			return 0, t.fail("no version %s: the last one is %d", at.ID, log.last)
		}
		return version, nil
	}
	for version := log.last; !at.AsOf.IsZero(); version-- {
		var made int64
		if log.commits[version] == "" {
			return 0, t.fail("no version at %s: the log of earlier ones was cleaned up", at.AsOf.Format(time.RFC3339))
		}
		err := t.eachAction(log.commits[version], func(a action) {
			if a.Commit != nil {
				made = cmp.Or(a.Commit.InCommit, a.Commit.Timestamp)
			}
		})
		switch {
		case err != nil:
			return 0, err
		case made == 0:
			return 0, input.WholeFile(log.commits[version], errors.New("a commit without a time: name a version instead"))
		case made <= at.AsOf.UnixMilli():
			return version, nil
		}
	}
	return log.last, nil
}

// eachAction calls visit for the actions in a commit, or in a part of a checkpoint.
func (t *table) eachAction(file string, visit func(action)) error {
	parse := func(text []byte) error {
		var a action
		err := json.Unmarshal(text, &a)
		if err == nil {
			visit(a)
		}
		return err
	}
	if strings.HasSuffix(file, ".parquet") {
		isAction := func(path string) bool { return !strings.HasSuffix(path, "_parsed") } // statistics in another form
		return eachParquet(t, file, parquet.Columns{Wanted: isAction}, func(row arrow.Nested) error {
			return parse(stream.AppendJSON(nil, row.Of.Column, row.Row))
		})
	}
	_, content, err := t.store.content(t.ctx, file)
	if err != nil {
		return err
	}
	lines := input.LineReader{Content: content}
	for err == nil {
		var line []byte
		if line, err = lines.ReadLine(); err == nil && len(bytes.TrimSpace(line)) > 0 {
			if err = parse(line); err != nil {
				err = lines.FailLine(err)
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, content.Close())
}

// deltaState is the state of a table after some actions.
type deltaState struct {
	files    map[string]deltaFile // by ID
	meta     deltaMeta
	protocol deltaProtocol
}

// apply changes the state by an action.
func (s *deltaState) apply(a action) {
	if a.Protocol != nil {
		s.protocol = *a.Protocol
	}
	if a.Meta != nil {
		s.meta = *a.Meta
	}
	if a.Remove != nil {
		delete(s.files, a.Remove.id())
	}
	if a.Add != nil {
		s.files[a.Add.id()] = *a.Add
	}
}

// live returns the files of the state. It returns an error if the rows or the names of the table may differ from those in its files and its
// log.
func (s *deltaState) live(t *table) (files []dataFile, err error) {
	if err := checkFormat(t.root, cmp.Or(s.meta.Format.Provider, onlyFormat)); err != nil {
		return nil, err
	}
	for _, feature := range s.protocol.Features {
		if !slices.Contains([]string{"columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck", "variantType"}, feature) {
			return nil, t.fail("a table with the feature %s, which is not supported", value.Quote(feature))
		}
	}
	if s.protocol.Version > 3 {
		return nil, t.fail("a table for readers of version %d of the protocol: expected at most 3", s.protocol.Version)
	}
	if mode := s.meta.Configuration["delta.columnMapping.mode"]; mode != nil && *mode != "none" {
		return nil, t.fail("a table that maps columns by %s, which is not supported: copy it to a table without delta.columnMapping.mode", *mode)
	}
	var schema struct {
		Fields []struct {
			Name string
			Type json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(s.meta.Schema), &schema); err != nil {
		return nil, t.fail("the schema of the table: %w", err)
	}
	whole := map[string]bool{}
	for _, f := range schema.Fields {
		whole[f.Name] = slices.Contains([]string{`"long"`, `"integer"`, `"short"`, `"byte"`}, string(f.Type))
	}
	for _, id := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[id]
		name, err := url.PathUnescape(f.Path)
		if err != nil {
			return nil, t.fail("%s: %w", f.Path, err)
		}
		file := dataFile{Path: t.path(name)}
		if f.Deleted != nil && f.Deleted.Storage != "" {
			return nil, input.WholeFile(file.Path, errors.New("a deletion vector says which of its rows are deleted, which is not supported: "+
				"rewrite the table's files with `REORG TABLE … APPLY (PURGE)`"))
		}
		for _, column := range s.meta.Partitions {
			text := f.Values[column]
			if text != nil && *text == "" {
				text = nil // an empty text is null
			}
			if err := file.addValue(column, text, whole[column]); err != nil {
				return nil, err
			}
		}
		files = append(files, file)
	}
	return files, nil
}
