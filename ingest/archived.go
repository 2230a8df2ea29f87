package ingest

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/schemas/value"
)

// WithArchiveTopic returns the options with the topic of the archive as FromTopic if the archive is the only source.
func (o Options) WithArchiveTopic(ctx context.Context) (Options, error) {
	if o.Archive.Files == "" || o.FromTopic != "" || o.Topic != "" || len(o.Train)+len(o.Test) > 0 {
		return o, nil
	}
	topic, err := archive.TopicOf(ctx, o.Archive)
	o.FromTopic, o.Archive.Alone = topic, true
	return o, err
}

// OpenArchive lists the archive, for the values that Values reads.
func (o Options) OpenArchive(ctx context.Context) (*archive.Archive, error) {
	f, _ := o.messageFormat()
	if f.Width != nil || o.Schema != "" { // columns by number, or by aliases
		return archive.Open(ctx, o.Archive, o.FromTopic, nil)
	}
	if o.Outcome.Topic != "" {
		o.Options = o.Options.WithLabelLater()
	}
	columns := format.Columns(o.Options)
	if o.JoinKey != "" {
		columns = append(columns, o.JoinKey)
	}
	if rows := o.rowsPath(); rows != "" {
		for _, c := range slices.Clone(columns) {
			columns = append(columns, rows+"."+c)
		}
	}
	return archive.Open(ctx, o.Archive, o.FromTopic, columns)
}

// IsGap reports whether an error says that neither an archive nor its topic has some messages.
func IsGap(err error) bool { return errors.As(err, new(*archive.GapError)) }

// errChanged means that a column of a file in an archive has changed its type, so that its rows can't be read like earlier ones.
var errChanged = errors.New("the type of the column changed: convert it in the later files, or end the pattern examples.archive.files " +
	"before them and give rows with the new type another pipeline")

// Pack encodes a message until the examples of its rows are known. Errors are as in Add.
func (v *Values) Pack(ctx context.Context, m TopicMessage) (_ []byte, err error) {
	head, rows := []tabular.Cell{tabular.Integer(m.Time)}, [][]tabular.Cell(nil)
	for _, text := range []string{m.Key, m.SchemaID, m.Trace, string(m.Value)} {
		head = append(head, tabular.Word(text))
	}
	if m.Row != nil {
		head = append(head, tabular.Truth(true))
		if len(m.Value) == 0 { // it is not JSON
			if rows, err = v.rowsOf(ctx, m); err != nil {
				return nil, err
			}
		}
	}
	return tabular.AppendRows(nil, append([][]tabular.Cell{head}, rows...)), nil
}

// Unpack decodes a message that [Values.Pack] has encoded.
func Unpack(partition int, offset int64, all []byte) TopicMessage {
	m := TopicMessage{Partition: partition, Offset: offset}
	rows := tabular.ReadRows(all)
	head, value := rows[0], ""
	m.Time, _ = head[0].Whole()
	for i, text := range []*string{&m.Key, &m.SchemaID, &m.Trace, &value} {
		*text, _ = head[i+1].Word()
	}
	m.Value = []byte(value)
	if len(head) > 5 {
		row := tabular.JSON(m.Value)
		if m.Row = &row; value == "" {
			m.rows = rows[1:]
		}
	}
	return m
}

// CheckCopy returns an error if the rows of a message and of its copy in a file of an archive differ. from is the file
// with the message; "": the topic has it. A message that can't be used is not compared.
func (v *Values) CheckCopy(ctx context.Context, m TopicMessage, from string, archived TopicMessage, file string) error {
	if differs := v.compare(ctx, m, archived); differs != nil && ctx.Err() == nil {
		return fmt.Errorf("%s[%d]@%d: %s has another message than %s: %w. Is the archive of another topic, or was the topic made again? "+
			"Remove the wrong files from examples.archive.files", v.whole.FromTopic, m.Partition, m.Offset, file, cmp.Or(from, "the topic"), differs)
	}
	return ctx.Err()
}

// compare says how the rows of a message and of its copy differ; nil: they are the same.
func (v *Values) compare(ctx context.Context, m, archived TopicMessage) error {
	if archived.Key != "" && !sameKey(m.Key, archived.Key) {
		return fmt.Errorf("its key is %s", value.Quote(archived.Key))
	}
	if m.Time != archived.Time && m.Time != 0 && archived.Time != 0 {
		return fmt.Errorf("its time is %d, not %d", archived.Time, m.Time)
	}
	on, err := v.rowsOf(ctx, m)
	if err != nil {
		return nil // Add returns the error
	}
	var rows [][]tabular.Cell
	for _, row := range on { // which the next call overwrites
		rows = append(rows, slices.Clone(row))
	}
	in, err := v.rowsOf(ctx, archived)
	if err != nil {
		return err
	}
	if len(in) != len(rows) {
		return fmt.Errorf("%d rows, not %d", len(in), len(rows))
	}
	for i, row := range rows {
		for column := range row {
			if !row[column].Same(&in[i][column]) {
				name := strconv.Itoa(column)
				if v.names != nil {
					name = value.Quote(v.names[column])
				}
				return fmt.Errorf("column %s is %s, not %s", name, &in[i][column], &row[column])
			}
		}
	}
	return nil
}

// sameKey reports whether the key of a message may be that of a copy in another encoding: sinks write the values of keys, or their bytes in
// base64.
func sameKey(key, archived string) bool {
	texts := outcome.Texts(key)
	known := !strings.ContainsFunc(texts[0], func(r rune) bool { return !unicode.IsPrint(r) })
	return slices.Contains(texts, outcome.TextOf(archived)) || !known || archived == base64.StdEncoding.EncodeToString([]byte(key))
}
