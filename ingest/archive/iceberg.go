package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	arrowtypes "github.com/apache/arrow/go/v17/arrow"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// metadata is the metadata of a state of a table (https://iceberg.apache.org/spec/#table-metadata-fields).
type metadata struct {
	Version  int    `json:"format-version"`
	Location string `json:"location"`
	Schema   *icebergType
	Schemas  []icebergType
	SchemaID int              `json:"current-schema-id"`
	Spec     []partitionField `json:"partition-spec"`
	Specs    []struct {
		ID     int `json:"spec-id"`
		Fields []partitionField
	} `json:"partition-specs"`
	Current   *int64 `json:"current-snapshot-id"`
	Snapshots []snapshot
	Log       []struct {
		At int64 `json:"timestamp-ms"`
		ID int64 `json:"snapshot-id"`
	} `json:"snapshot-log"`
	Refs map[string]struct {
		ID int64 `json:"snapshot-id"`
	}
	Properties map[string]string
}

type snapshot struct {
	ID       int64  `json:"snapshot-id"`
	SchemaID *int   `json:"schema-id"`
	List     string `json:"manifest-list"`
}

type partitionField struct {
	Source    int `json:"source-id"`
	Name      string
	Transform string
}

// icebergType is a nested type: a struct, a list or a map.
type icebergType struct {
	SchemaID int `json:"schema-id"`
	Fields   []struct {
		ID   int
		Name string
		Type json.RawMessage
	}
	Element, Key, Value json.RawMessage
}

// columns are the columns of a schema by the IDs of their fields.
type columns struct {
	names map[int]string
	above map[int]int    // the enclosing column
	ids   map[string]int // of files without IDs: see [parquet.Columns]; nil: unknown
}

// add adds the columns within the column above, whose type is given.
func (c columns) add(of icebergType, above int) error {
	types := map[int][]json.RawMessage{above: {of.Element, of.Key, of.Value}}
	for _, f := range of.Fields {
		c.names[f.ID], c.above[f.ID] = f.Name, above
		types[f.ID] = []json.RawMessage{f.Type}
	}
	for id, texts := range types {
		for _, text := range texts {
			if len(text) == 0 || text[0] == '"' {
				continue
			}
			var below icebergType
			if err := json.Unmarshal(text, &below); err != nil {
				return err
			}
			if err := c.add(below, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapping lists the names that a column, or an item of a list, has in files without IDs.
type mapping struct {
	ID     int `json:"field-id"`
	Names  []string
	Fields []mapping
}

// find adds the IDs of a column at a path, and of the columns within it.
func (c columns) find(m mapping, path string) {
	for _, name := range m.Names {
		c.ids[path+name] = m.ID
	}
	if name := c.names[m.ID]; name != "" { // items of lists have none
		path += name + "."
	}
	for _, below := range m.Fields {
		c.find(below, path)
	}
}

// manifestFile is an entry of the list of manifests of a snapshot.
type manifestFile struct {
	Path     string  `avro:"manifest_path"`
	Spec     int     `avro:"partition_spec_id"`
	Sequence int64   `avro:"sequence_number"`
	Key      *[]byte `avro:"key_metadata"`
}

// manifestEntry is an entry of a manifest: a file that is live or that was removed.
type manifestEntry struct {
	Status   int    `avro:"status"`
	Sequence *int64 `avro:"sequence_number"`
	File     struct {
		Content   int            `avro:"content"`
		Path      string         `avro:"file_path"`
		Format    string         `avro:"file_format"`
		Partition map[string]any `avro:"partition"`
		Key       *[]byte        `avro:"key_metadata"`
		Equal     *[]int         `avro:"equality_ids"`
		Refers    *string        `avro:"referenced_data_file"`
	} `avro:"data_file"`
}

// Contents of the files in a manifest, the status of a removed file, and a transform.
const (
	contentRows, contentPositions, contentEqual = 0, 1, 2
	statusRemoved                               = 2
	unchanged                                   = "identity" // the transform of a partition field that has the values of a column
)

// icebergFile is a live file of a table, with rows or with deletes.
type icebergFile struct {
	manifestEntry
	sequence  int64
	fields    []partitionField
	partition string // partition and spec
}

// isGlobal reports whether a file belongs to no partition.
func (f icebergFile) isGlobal() bool {
	return !slices.ContainsFunc(f.fields, func(p partitionField) bool { return p.Transform != "void" })
}

// iceberg returns the files of a snapshot of a table of Apache Iceberg.
func iceberg(t *table, at snapshotName) ([]dataFile, error) {
	name, err := t.metadataFile()
	if err != nil {
		return nil, err
	}
	var m metadata
	content, err := t.content(name)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &m); err != nil {
		return nil, input.WholeFile(name, err)
	}
	if m.Version < 1 || m.Version > 2 {
		return nil, input.WholeFile(name, fmt.Errorf("version %d of Iceberg, which may have deletion vectors, row lineage and "+
			"defaults: expected a table of version 1 or 2", m.Version))
	}
	t.location = m.Location
	s, err := m.snapshot(t, at)
	if s == nil || err != nil {
		return nil, err
	}
	columns, err := m.columns(s, at)
	if err != nil {
		return nil, input.WholeFile(name, err)
	}
	manifests, err := decodeAll[manifestFile](t, s.List)
	if err != nil {
		return nil, err
	}
	var contents [3][]icebergFile
	for _, manifest := range manifests {
		if manifest.Key != nil {
			return nil, input.WholeFile(t.path(manifest.Path), errEncrypted)
		}
		fields, err := m.spec(manifest.Spec)
		if err != nil {
			return nil, input.WholeFile(name, err)
		}
		entries, err := decodeAll[manifestEntry](t, manifest.Path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			partition := fmt.Sprint(manifest.Spec, e.File.Partition) // fmt sorts the keys of maps
			f := icebergFile{e, manifest.Sequence, fields, partition}
			switch {
			case e.Status == statusRemoved:
				continue
			case e.File.Key != nil:
				return nil, input.WholeFile(t.path(e.File.Path), errEncrypted)
			case e.File.Content < 0 || e.File.Content >= len(contents):
				return nil, input.WholeFile(t.path(manifest.Path), fmt.Errorf("files of content %d are not supported", e.File.Content))
			case e.Sequence != nil:
				f.sequence = *e.Sequence
			}
			if err := checkFormat(t.path(e.File.Path), e.File.Format); err != nil {
				return nil, err
			}
			contents[f.File.Content] = append(contents[f.File.Content], f)
		}
	}
	deletes, err := t.deletes(contents[contentPositions], contents[contentEqual], columns)
	if err != nil {
		return nil, err
	}
	files := make([]dataFile, 0, len(contents[contentRows]))
	for _, f := range contents[contentRows] {
		file := dataFile{Path: t.path(f.File.Path), Columns: parquet.Columns{Names: columns.names, IDs: columns.ids}}
		if err := f.addValues(&file); err != nil {
			return nil, err
		}
		if file.Deleted, err = deletes.of(t, f, file, columns); err != nil {
			return nil, input.WholeFile(file.Path, err)
		}
		files = append(files, file)
	}
	return files, nil
}

var errEncrypted = errors.New("an encrypted file, which is not supported")

var metadataVersion = regexp.MustCompile(`^v?([0-9]+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?$`)

// metadataFile returns the path of the current metadata: the one that the root or version-hint.text names, or the one of the highest
// version.
func (t *table) metadataFile() (string, error) {
	if metadataVersion.MatchString(path.Base(t.root)) {
		file := t.root
		t.root = strings.TrimSuffix(file[:strings.LastIndex(file, "/")+1], "metadata/")
		t.root = strings.TrimSuffix(t.root, "/")
		return file, nil
	}
	versions, highest, err := t.versions("metadata", metadataVersion)
	if err != nil {
		return "", err
	}
	hint := int64(-1)
	for _, file := range versions[-1] {
		if path.Base(file) == "version-hint.text" {
			content, err := t.content(file)
			if err != nil {
				return "", err
			}
			if hint, err = strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err != nil || hint < 0 {
				return "", input.WholeFile(file, errors.New("expected the number of the current version: remove the file, or set "+
					"examples.archive.files to the current file of metadata"))
			}
		}
	}
	if hint >= 0 {
		highest = hint
	}
	switch names := versions[highest]; {
	case highest < 0:
		return "", t.fail("no table of Iceberg: expected files such as metadata/v1.metadata.json in it")
	case len(names) == 0:
		return "", t.fail("no metadata of version %d, which metadata/version-hint.text names", hint)
	case len(names) > 1:
		return "", t.fail("version %d has %d files of metadata, because several programs wrote at the same time: set examples.archive.files to "+
			"the one that the catalog names, such as %s", highest, len(names), names[0])
	default:
		return names[0], nil
	}
}

// snapshot returns a snapshot; nil if the table is empty.
func (m *metadata) snapshot(t *table, at snapshotName) (*snapshot, error) {
	id := int64(-1)
	switch ref, known := m.Refs[at.ID]; {
	case at.ID != "" && known:
		id = ref.ID
	case at.ID != "":
		var err error
		if id, err = strconv.ParseInt(at.ID, 10, 64); err != nil {
			return nil, t.fail("no snapshot, tag or branch %s", at.ID)
		}
	case !at.AsOf.IsZero():
		for _, entry := range m.Log {
			if entry.At <= at.AsOf.UnixMilli() {
				id = entry.ID
			}
		}
		if id < 0 {
			return nil, t.fail("no snapshot at %s", at.AsOf.Format(time.RFC3339))
		}
	case m.Current == nil || *m.Current < 0:
		return nil, nil
	default:
		id = *m.Current
	}
	for i := range m.Snapshots {
		if m.Snapshots[i].ID == id {
			return &m.Snapshots[i], nil
		}
	}
	return nil, t.fail("no snapshot %d: it expired, or was never there", id)
}

// columns returns the columns of the table now, or at an earlier snapshot.
func (m *metadata) columns(s *snapshot, at snapshotName) (c columns, err error) {
	id := m.SchemaID
	if s.SchemaID != nil && at != (snapshotName{}) {
		id = *s.SchemaID
	}
	schema := m.Schema
	for i := range m.Schemas {
		if m.Schemas[i].SchemaID == id {
			schema = &m.Schemas[i]
		}
	}
	if schema == nil {
		return c, fmt.Errorf("no schema %d", id)
	}
	c = columns{names: map[int]string{}, above: map[int]int{}}
	if err := c.add(*schema, 0); err != nil {
		return c, err
	}
	if text := m.Properties[nameMapping]; text != "" {
		var names mapping
		if err := json.Unmarshal([]byte(text), &names.Fields); err != nil {
			return c, fmt.Errorf("%s: %w", nameMapping, err)
		}
		c.ids = map[string]int{}
		c.find(names, "")
	}
	return c, nil
}

// nameMapping is the property of a table with the names of columns in files without IDs.
const nameMapping = "schema.name-mapping.default"

// spec returns the fields of a partition spec.
func (m *metadata) spec(id int) ([]partitionField, error) {
	for _, spec := range m.Specs {
		if spec.ID == id {
			return spec.Fields, nil
		}
	}
	if len(m.Specs) > 0 {
		return nil, fmt.Errorf("no partition spec %d", id)
	}
	return m.Spec, nil
}

// addValues adds the partition values that equal a column's values: files of imported tables lack the column.
func (f icebergFile) addValues(file *dataFile) error {
	for _, field := range f.fields {
		column := file.Names[field.Source]
		if field.Transform != unchanged || column == "" {
			continue
		}
		var text *string
		isWhole := false
		switch of := f.File.Partition[avroName(field.Name)].(type) {
		case nil:
		case string:
			text = &of
		case int, int32, int64:
			text, isWhole = new(fmt.Sprint(of)), true
		case bool:
			text = new(value.WordOfBoolean(of))
		case float32, float64:
			text = new(fmt.Sprint(of))
		case *big.Rat: // of a decimal
			digits, _ := of.FloatPrec()
			text = new(of.FloatString(digits))
		case time.Time:
			text = new(textOfTime(of))
		default:
			continue
		}
		if err := file.addValue(column, text, isWhole); err != nil {
			return err
		}
	}
	return nil
}

var (
	notInNames = regexp.MustCompile(`[^\pL\pN_]`)
	beginsName = regexp.MustCompile(`^[\pL_]`)
)

// avroName returns the name of a partition field in manifests: names in Avro have letters, digits and underscores.
func avroName(field string) string {
	name := notInNames.ReplaceAllStringFunc(field, func(c string) string { return fmt.Sprintf("_x%X", []rune(c)[0]) })
	if !beginsName.MatchString(name) {
		name = "_" + name
	}
	return name
}

// textOfTime returns the text of a time, or of a date, which has no hours.
func textOfTime(at time.Time) string {
	if at = at.UTC(); at.Equal(at.Truncate(24 * time.Hour)) {
		return at.Format(time.DateOnly)
	}
	return at.Format(time.RFC3339Nano)
}

// decodeAll returns the records of a container file in Avro.
func decodeAll[T any](t *table, name string) (all []T, err error) {
	_, content, err := t.store.content(t.ctx, t.path(name))
	if err != nil {
		return nil, err
	}
	defer content.Close()                                           // only read
	anyName := avro.WithLaxNames(func(string) error { return nil }) // partition fields are named like columns
	r, err := ocf.NewReader(content, ocf.WithDecodeOpts(avro.SkipUnknown()), ocf.WithSchemaOpts(anyName))
	if err == nil {
		defer r.Close()
	}
	for err == nil {
		var record T
		if err = r.Decode(&record); err == nil {
			all = append(all, record)
		}
	}
	if err == io.EOF {
		return all, nil
	}
	return nil, input.WholeFile(content.Name, err)
}

// deletes are the rows that the delete files of an Iceberg snapshot remove (https://iceberg.apache.org/spec/#scan-planning).
type deletes struct {
	positions map[string][]position // by the path of the file that has the rows
	equal     []equalDeletes
}

// position is a row that a position delete file removes from data files that are not newer.
type position struct{ row, sequence int64 }

// equalDeletes is an equality delete file. It removes the rows of older files that have the same values as one of its rows.
type equalDeletes struct {
	icebergFile
	keys map[string]bool
}

// deletes reads delete files.
func (t *table) deletes(positions, equal []icebergFile, of columns) (d deletes, err error) {
	d.positions = map[string][]position{}
	isPosition := func(path string) bool { return path == "file_path" || path == "pos" }
	for _, f := range positions {
		err := eachParquet(t, t.path(f.File.Path), parquet.Columns{Wanted: isPosition}, func(r arrow.Nested) error {
			of, at := r.Of.Named("file_path"), r.Of.Named("pos")
			if of == nil || at == nil || of.Type != stream.Text || at.Type != stream.Whole {
				return errors.New("expected the columns file_path and pos")
			}
			row, _ := at.Whole(r.Row)
			path := strings.Clone(of.Text(r.Row))
			d.positions[path] = append(d.positions[path], position{row, f.sequence})
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	for _, f := range equal {
		if f.File.Equal == nil || len(*f.File.Equal) == 0 {
			return d, input.WholeFile(t.path(f.File.Path), errors.New("equality deletes without columns"))
		}
		e := equalDeletes{icebergFile: f, keys: map[string]bool{}}
		err := t.eachKey(dataFile{Path: t.path(f.File.Path)}, *f.File.Equal, of, func(key string) { e.keys[key] = true })
		if err != nil {
			return d, err
		}
		d.equal = append(d.equal, e)
	}
	return d, nil
}

// of returns the deleted rows of a file.
func (d deletes) of(t *table, f icebergFile, file dataFile, of columns) (rows []int64, err error) {
	for _, p := range d.positions[f.File.Path] {
		if f.sequence <= p.sequence {
			rows = append(rows, p.row)
		}
	}
	alike := map[string][]equalDeletes{} // by their columns
	for _, e := range d.equal {
		if f.sequence < e.sequence && (f.partition == e.partition || e.isGlobal()) {
			ids := fmt.Sprint(*e.File.Equal)
			alike[ids] = append(alike[ids], e)
		}
	}
	for _, these := range alike {
		row := int64(0)
		err := t.eachKey(file, *these[0].File.Equal, of, func(key string) {
			if slices.ContainsFunc(these, func(e equalDeletes) bool { return e.keys[key] }) {
				rows = append(rows, row)
			}
			row++
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows), nil
}

// eachKey calls visit for each row of a file, with a text for the values of the columns with the given IDs. Equal values have equal
// texts, even if the type of a column was widened. A column that the file lacks has its partition value, or is null.
func (t *table) eachKey(file dataFile, ids []int, of columns, visit func(key string)) error {
	names := map[int]string{}
	for _, id := range ids {
		for at := id; at != 0; at = of.above[at] {
			names[at] = of.name(at)
		}
	}
	keyed := parquet.Columns{Names: names, IDs: of.ids, Values: file.Values}
	return eachParquet(t, file.Path, keyed, func(row arrow.Nested) error {
		var key []string
		for _, id := range ids {
			text, ok := textOf(of.in(row.Of, id), row.Row)
			if !ok {
				return fmt.Errorf("an equality delete by the column %s: not a single value", of.names[id])
			}
			key = append(key, text)
		}
		visit(strings.Join(key, ","))
		return nil
	})
}

// in returns the values of a column in rows; nil if the rows lack the column.
func (c columns) in(rows *stream.Values, id int) *stream.Values {
	if above := c.above[id]; above != 0 {
		rows = c.in(rows, above)
	}
	if rows == nil || rows.Type != stream.Struct {
		return nil
	}
	return rows.Named(c.name(id))
}

// name returns the name of a column, including a dropped one.
func (c columns) name(id int) string {
	if name := c.names[id]; name != "" {
		return name
	}
	return fmt.Sprint("column with ID ", id)
}

// textOf returns a text that is the same for equal values. A nil v is a null.
func textOf(v *stream.Values, row int) (text string, ok bool) {
	if v == nil || v.Null(row) {
		return "null", true
	}
	_, isDecimal := v.Column.DataType().(arrowtypes.DecimalType)
	switch {
	case v.Type == stream.List || v.Type == stream.Struct:
		return "", false
	case v.Type == stream.Moment: // time zones may differ between files
		text = textOfTime(v.Moment(row))
	case v.Type == stream.Other || isDecimal:
		text = v.Column.ValueStr(row)
	default:
		text = v.Text(row)
	}
	return strconv.Quote(text), true
}
