package input

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stagewise/stagewise/schemas/value"
)

// Hidden reports whether a path in a directory or an archive is hidden, as in Hive and Spark: a name in it starts with a dot, or with
// an underscore and is not a partition value, such as _year=2026.
func Hidden(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		switch {
		case name == "." || name == "..":
		case strings.HasPrefix(name, "."), strings.HasPrefix(name, "_") && !strings.Contains(name, "="):
			return true
		}
	}
	return false
}

// File is a file in a directory tree.
type File struct {
	Path string // in the tree
	fs.FileInfo
}

// Walk iterates over the files in a directory tree in path order, and over hidden ones if all is set. It follows links to directories, but
// not in cycles. It ends after an error, which comes with its path.
func Walk(folder fs.FS, all bool) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) { walk(folder, ".", nil, all, yield) }
}

// walk reports whether more files are wanted.
func walk(folder fs.FS, at string, above []fs.FileInfo, all bool, yield func(File, error) bool) bool {
	info, err := fs.Stat(folder, at) // follows links
	switch {
	case err != nil:
		yield(File{Path: at}, err)
		return false
	case !info.IsDir():
		return yield(File{at, info}, nil)
	case slices.ContainsFunc(above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }):
		return true
	}
	entries, err := fs.ReadDir(folder, at)
	if err != nil {
		yield(File{Path: at}, err)
		return false
	}
	for _, entry := range entries {
		if all || !Hidden(entry.Name()) {
			if !walk(folder, path.Join(at, entry.Name()), append(above, info), all, yield) {
				return false
			}
		}
	}
	return true
}

// IsPattern reports whether a name may match other files than the one with this name.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Glob is filepath.Glob, except that an exact match takes precedence, in each element of the path. So brackets in a directory name
// don't break a pattern for files in it. It is an error if a match is in a directory of a table format that keeps files of earlier
// states. A hidden name matches only a pattern that starts with the same character.
func Glob(name string) ([]string, error) {
	if !IsPattern(name) {
		return []string{name}, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return []string{name}, nil
	}
	folder, pattern := filepath.Split(name)
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, WholeFile(name, errors.New("no such file, nor a valid pattern: [ without ]"))
	}
	folders := []string{folder}
	if IsPattern(folder) {
		var err error
		if folders, err = Glob(filepath.Clean(folder)); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, folder := range folders {
		entries, err := os.ReadDir(cmp.Or(folder, "."))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return nil, WholeFile(name, err)
		}
		for _, e := range entries {
			hidden := Hidden(e.Name()) && pattern[0] != e.Name()[0]
			if matches, _ := filepath.Match(pattern, e.Name()); matches && !hidden {
				found = append(found, filepath.Join(folder, e.Name()))
			}
		}
	}
	slices.Sort(found)
	lakes := Lakes{}
	for _, file := range found {
		if err := lakes.Check(filepath.Dir(file)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Kind is the kind of a file in a directory, by its name.
type Kind struct {
	IsTable bool // it is a table, or a part of one
	HasPath bool // its format supports partition values from directory names
}

// Tables returns the table files in a directory, sorted, as written in parts by Spark and others; none if it has images.
// values are partition values from directory names, such as kind=iris. It is an error if the directory is of a table format that keeps
// files of earlier states, or has one in it.
func Tables(folder string, kindOf func(name string) Kind) (tables []string, values map[string][]Partition, err error) {
	lakes := Lakes{}
	if err := lakes.Check(folder); err != nil {
		return nil, nil, err
	}
	images := false
	for file, err := range Walk(os.DirFS(folder), false) {
		name := strings.ToLower(filepath.Base(file.Path))
		switch {
		case err != nil:
			err = WholeFile(filepath.Join(folder, filepath.FromSlash(file.Path)), err)
		case slices.Contains([]string{".png", ".jpg", ".jpeg"}, filepath.Ext(name)):
			images = true
		case kindOf(name).IsTable:
			tables = append(tables, filepath.Join(folder, filepath.FromSlash(file.Path)))
			err = lakes.Check(filepath.Dir(tables[len(tables)-1]))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if images || len(tables) == 0 {
		return nil, nil, nil
	}
	slices.Sort(tables)
	values, err = valuesInPaths(folder, tables, kindOf)
	return tables, values, err
}

// lakeFormat is a table format whose directories also have the files of earlier states.
type lakeFormat struct {
	folder, file string // a folder in the directory of a table, and a file in it; "": any file
	name, reader string
	layout       string // examples.archive.layout that reads it; "": none
}

var lakeFormats = []lakeFormat{
	{"_delta_log", "", "Delta Lake", "delta", "delta"},
	{".hoodie", "", "Apache Hudi", "hudi", ""},
	{"metadata", "*.metadata.json", "Apache Iceberg", "iceberg", "iceberg"},
	{"snapshot", "snapshot-*", "Apache Paimon", "paimon", ""},
}

// at returns the error of a directory that is a table of the format.
func (f lakeFormat) at(folder string) error {
	instead := ""
	if f.layout != "" {
		instead = fmt.Sprintf("set examples.archive with files: %s and layout: %s if its rows have partitions and offsets of a topic, ",
			folder, f.layout)
	}
	return WholeFile(folder, fmt.Errorf("a table of %s, which also has files of earlier states: %swrite the current state as "+
		"Parquet, as with `spark.read.format(%q).load(…).write.parquet(…)`, or name its files one by one", f.name, instead, f.reader))
}

// LakeFolders returns the names of directories that are only in tables of formats that also keep files of earlier states.
func LakeFolders() (names []string) {
	for _, f := range lakeFormats {
		names = append(names, f.folder)
	}
	return names
}

// CheckLake returns a *Error if the path of a file shows that folder, or a directory below it, is a table of such a format. The path is
// relative to folder.
func CheckLake(folder, file string) error {
	names := strings.Split(file, "/")
	for i := range len(names) - 1 {
		for _, f := range lakeFormats {
			if matches, _ := path.Match(cmp.Or(f.file, "*"), names[i+1]); matches && names[i] == f.folder && (f.file == "" || i+2 == len(names)) {
				return f.at(strings.Join(append([]string{strings.TrimSuffix(folder, "/")}, names[:i]...), "/"))
			}
		}
	}
	return nil
}

// Lakes are the directories that have been checked.
type Lakes map[string]bool

// Check returns a *Error if a directory is a table of such a format, or in one.
func (l Lakes) Check(folder string) error {
	folder, err := filepath.Abs(folder)
	for ; err == nil && !l[folder]; folder = filepath.Dir(folder) {
		l[folder] = true
		for _, f := range lakeFormats {
			if found, _ := fs.Glob(os.DirFS(folder), path.Join(f.folder, f.file)); len(found) > 0 {
				return f.at(folder)
			}
		}
	}
	return err
}

// Partition is a partition value from a directory name, such as kind=iris, as in Hive and Spark.
type Partition struct {
	Column, Text string
	Null         bool
	IsWhole      bool // all values of the column are integers, and so is this one
	Whole        int64
	IsLayout     bool // the column only says when and where its writer stored the rows
}

// NullError adds to the error about a null that it is from a directory name, and how to leave its rows out.
func (p Partition) NullError(err error) error {
	return fmt.Errorf("%w. The column %s is null in the folder %[2]s=%[3]s: start the folder's name with a dot to leave its rows out",
		err, p.Column,
		p.Text)
}

// noPartition is the partition value for null.
const noPartition = "__HIVE_DEFAULT_PARTITION__"

// valuesInPaths returns the partition values of the tables in a directory.
func valuesInPaths(folder string, tables []string, kindOf func(name string) Kind) (map[string][]Partition, error) {
	values := map[string][]Partition{}
	words, features := map[string]bool{}, map[string]bool{} // columns with a value that is not an integer, or not of a layout
	for _, table := range tables {
		values[table] = nil
		relative, err := filepath.Rel(folder, filepath.Dir(table))
		if err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(filepath.ToSlash(relative), "/") {
			column, text, partitioned := strings.Cut(part, "=")
			if !partitioned {
				continue
			}
			if plain, err := url.PathUnescape(text); err == nil { // special characters in directory names are escaped
				text = plain
			}
			v := Partition{Column: column, Text: text, Null: text == noPartition}
			if v.Whole, err = strconv.ParseInt(text, 10, 64); !v.Null && (err != nil || strconv.FormatInt(v.Whole, 10) != text) {
				words[column] = true
			}
			values[table] = append(values[table], v)
		}
		storage := storageOf(table, values[table])
		for _, v := range values[table] {
			features[v.Column] = features[v.Column] || !v.Null && !storage.has(v)
		}
	}
	for _, table := range tables {
		for i := range values[table] {
			v := &values[table][i]
			v.IsWhole, v.IsLayout = !words[v.Column], !features[v.Column]
			if !v.IsLayout && !kindOf(table).HasPath {
				return nil, WholeFile(folder, fmt.Errorf("folders such as %s=%s hold the values of the column %s, which only "+
					"Parquet and Arrow support: write the table without partitions", v.Column, v.Text, value.Quote(v.Column)))
			}
		}
	}
	return values, nil
}

var (
	// connectFile matches the files of Kafka Connect's sinks, such as orders+0+0000000042.json: topic, partition and offset.
	connectFile = regexp.MustCompile(`^.+\+[0-9]+\+[0-9]+(\.|$)`)

	kafkaNames = []string{"topic", "partition", "offset", "kafka_topic", "kafka_partition", "kafka_offset"}
	clockNames = []string{"year", "month", "day", "hour", "hr", "minute", "min", "second"}

	dateText  = regexp.MustCompile(`^(19|20)[0-9]{2}[-_][01][0-9]([-_][0-3][0-9])?([-_ T].*)?$`)
	dateWhole = regexp.MustCompile(`^(19|20)[0-9]{2}[01][0-9][0-3][0-9]([0-9]{2}){0,3}$`)
	dateName  = regexp.MustCompile(`(?i)(^|[a-z]*[_-])(dt|ds|date|day|hour|datetime|yyyymmdd)$`)
)

// storage describes the writer of a file, by the names of the file and its folders: a Kafka sink, or one that stores rows by time.
type storage struct{ kafka, dated bool }

// storageOf returns the storage of a file with these partition values.
func storageOf(file string, values []Partition) (s storage) {
	var names []string
	for _, v := range values {
		name := strings.ToLower(v.Column)
		names = append(names, name)
		s.kafka = s.kafka || (name == "partition" || name == "kafka_partition") && isNumber(v.Text)
		s.dated = s.dated || isDate(v)
	}
	s.kafka = s.kafka || connectFile.MatchString(filepath.Base(file))
	s.dated = s.dated || s.kafka || slices.Contains(names, "year") && slices.Contains(names, "month") && slices.Contains(names, "day")
	return s
}

// has reports whether a partition value says where and when its row was stored.
func (s storage) has(v Partition) bool {
	name := strings.ToLower(v.Column)
	return s.kafka && slices.Contains(kafkaNames, name) || s.dated && slices.Contains(clockNames, name) && isNumber(v.Text) || isDate(v)
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

func isDate(v Partition) bool {
	return dateText.MatchString(v.Text) || dateWhole.MatchString(v.Text) && dateName.MatchString(v.Column)
}
