package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/archive"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// WithArchiveTopic returns the options with the topic of the archive as FromTopic if it is the only source.
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
	format, _ := o.messageFormat()
	if format.Width != nil || o.Schema != "" { // columns by number, or by aliases
		return archive.Open(ctx, o.Archive, o.FromTopic, nil)
	}
	if o.Outcome.Topic != "" {
		o.Options = o.Options.WithLabelLater()
	}
	columns := message.Columns(o.Options)
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

// forms are the readers of values that an archive encodes in another way than the topic.
type forms struct {
	readers map[string]message.Reader  // by format
	schemas map[string]*message.Schema // by schema ID
	id      string                     // the last schema ID
	form    message.Form               // the last form
}

// rows returns the rows of a value in a form of an archive.
func (f *forms) rows(ctx context.Context, o Options, m TopicMessage) (rows [][]tabular.Cell, err error) {
	if m.SchemaID != f.id {
		f.form, _ = message.FormOf(m.SchemaID)
		f.id = m.SchemaID
	}
	r := f.readers[f.form.Format]
	if r == nil {
		all := messageFormats()
		at := slices.IndexFunc(all, func(of message.Format) bool { return of.Name == f.form.Format })
		if at < 0 {
			return nil, fmt.Errorf("a value of an archive in the format %q", f.form.Format)
		}
		with := o.messageOptions()
		if all[at].Name != o.Format {
			with.Schema, with.Message = "", "" // of values on the topic
		}
		if r, err = all[at].Open(with); err != nil {
			return nil, err
		}
		if f.readers == nil {
			f.readers, f.schemas = map[string]message.Reader{}, map[string]*message.Schema{}
		}
		f.readers[f.form.Format] = r
	}
	p := message.Payload{Value: m.Value, Within: f.form.Within}
	if f.form.Schema != "" {
		if p.Schema = f.schemas[f.id]; p.Schema == nil {
			p.Schema = &message.Schema{Name: "the schema of the file", Text: f.form.Schema}
			f.schemas[f.id] = p.Schema
		}
	}
	return r.Read(ctx, p)
}

// CheckCopy returns an *[archive.ConflictError] if the rows of a message and of its copy in a file of an archive differ. A message that
// can't be used is not compared.
func (v *Values) CheckCopy(ctx context.Context, m, archived TopicMessage, file string) error {
	if differs := v.compare(ctx, m, archived); differs != nil && ctx.Err() == nil {
		return &archive.ConflictError{Topic: v.whole.FromTopic, Partition: m.Partition, Offset: m.Offset, File: file, Reason: differs.Error()}
	}
	return ctx.Err()
}

// compare says how the rows of a message and of its copy differ; nil: they are the same.
func (v *Values) compare(ctx context.Context, m, archived TopicMessage) error {
	if m.Key != archived.Key && archived.Key != "" {
		return fmt.Errorf("its key is %s", value.Quote(archived.Key))
	}
	if m.Time != archived.Time && archived.Time != 0 {
		return fmt.Errorf("its time is %d, and on the topic %d", archived.Time, m.Time)
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
		return fmt.Errorf("%d rows, and on the topic %d", len(in), len(rows))
	}
	for i, row := range rows {
		for column := range row {
			if !row[column].Same(&in[i][column]) {
				return fmt.Errorf("column %s is %s, and on the topic %s", v.columnName(column), &in[i][column], &row[column])
			}
		}
	}
	return nil
}

// columnName returns the name of a column that is read, or its number.
func (v *Values) columnName(column int) string {
	if v.format.Width == nil {
		return value.Quote(message.Columns(v.whole.Options)[column])
	}
	return strconv.Itoa(column)
}
