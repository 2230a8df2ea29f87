package ingest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// Check returns a Problem for each value that is invalid for any file content. It does not open the files.
func (o Options) Check() option.Problems { return o.check(slices.Concat(o.Train, o.Test)) }

// check is Check for the given files. It checks the table of keys first.
func (o Options) check(files []string) option.Problems {
	p := option.Check(Keys(), o, Defaults())
	told := o.formatsOf(files)
	if o.FromTopic != "" {
		told = o.checkMessages(&p)
	} else {
		o.checkFiles(&p)
		o.checkFormats(&p, told, len(files) > 0)
	}
	rows, labels := o.Options, []layout.Column{}
	if o.Outcome.Topic != "" {
		rows = rows.WithLabelLater() // of outcomes
	}
	for _, f := range told {
		labels = append(labels, f.Label)
	}
	p.Under("", rows.CheckColumns(labels...))
	o.checkOutcome(&p)
	from, _ := ParseBound(o.From)
	if to, ok := ParseBound(o.To); ok && len(o.From) > 0 && !from.Before(to) {
		p.Add("to", option.Shown(o.To), "a later one than examples.from, which is "+strings.Join(o.From, ", "))
	}
	if o.density() == rowsDense && o.FromTopic != "" {
		p.Add("rows", o.Rows, "auto or sparse, because the number of columns of sparse rows of a topic is unknown before they are read; or "+
			"the path of the rows, in which a member of that name is written ./dense")
	} else if o.density() == rowsDense && o.Text != "" {
		p.Add("rows", o.Rows, "auto or sparse, because examples.text is set: counts of words are sparse")
	}
	if most := o.Words.MaxColumns(); o.Text != "" && o.Words.Columns > most {
		p.Add("words.columns", option.Shown(o.Words.Columns), fmt.Sprintf("a whole number from 1 to %d", most))
	}
	if o.Text != "" && o.Words.Found() && o.Mode != layout.Predicting && len(o.Train) == 0 {
		p.Add("words.vocabulary", o.Words.Vocabulary, "files under examples.train, in which its words are found")
	}
	if len(o.Classes) == 1 && !o.Several() {
		p.Add("classes", option.Shown(o.Classes), "at least two labels, because one is not learnt; or none: all labels found")
	}
	for _, label := range slices.Sorted(maps.Keys(o.ClassWeight.By)) {
		isLabel := func(class string) bool { return value.Label(class) == value.Label(label) }
		if len(o.Classes) > 0 && !slices.ContainsFunc(o.Classes, isLabel) {
			p.Add("class_weight", label, "labels that are among examples.classes")
		}
	}
	return p
}

// checkFiles checks the file names. Checks that need the content are left to Sources.
func (o Options) checkFiles(p *option.Problems) {
	_, ofFiles := o.formatByName("")
	_, ofMessages := o.messageFormat()
	archived := ofMessages && o.Archive.Files != "" // by the pipeline whose examples are read
	if o.Format != "" && !ofFiles && !archived {
		p.Add("format", o.Format, formatNames("", "or", format.Format.IsOfFiles))
	}
	if path := o.rowsPath(); path != "" {
		p.Add("rows", path, "examples.from_topic too: it describes the messages of a topic")
	}
	fromInput := 0
	for i, files := range [][]string{o.Train, o.Test} {
		key := []string{"train", "test"}[i]
		if slices.Contains(files, "") {
			p.Add(key, "", "the name of a file")
		} else if f, ok := o.brokenSource(files); ok {
			p.Add(key, fmt.Sprint(files), f.Name+" "+f.WantFiles)
		}
		for _, name := range files {
			if name == StandardInput {
				fromInput++
			}
		}
	}
	if fromInput > 1 {
		key := "train"
		if slices.Contains(o.Test, StandardInput) {
			key = "test"
		}
		p.Add(key, StandardInput, "the standard input (-) in one place only: it can be read once")
	}
}

// brokenSource returns the format of a source that lacks files, judging by the names of the files.
func (o Options) brokenSource(files []string) (f format.Format, ok bool) {
	if slices.ContainsFunc(files, input.IsPattern) {
		return f, false // the files are unknown
	}
	for rest := files; len(rest) > 0; rest = rest[f.Files:] {
		if f, ok = o.formatByName(rest[0]); !ok {
			return f, false // the number of files of a source is unknown too
		}
		if len(rest) < f.Files || slices.ContainsFunc(rest[1:f.Files], func(name string) bool {
			other, ok := o.formatByName(name)
			return ok && other.Name != f.Name
		}) {
			return f, true
		}
	}
	return f, false
}

// checkFormats checks the keys that files of some formats do not support.
func (o Options) checkFormats(p *option.Problems, told []format.Format, named bool) {
	for _, f := range told {
		switch {
		case !named:
		case len(o.Targets) > 0 && !f.IsTable():
			p.Add("targets", option.Shown(o.Targets), "no targets in files of the format "+f.Name+": their examples have labels")
		case o.Several() && f.OneLabel:
			p.Add("labels", o.Labels, "one, as files of the format "+f.Name+" have one label a row")
		}
		if f.HasHeader && o.Header != nil && !*o.Header && slices.ContainsFunc(o.NamedColumns(), layout.Column.IsName) {
			p.Add("header", "false", "true, because a column is given by its name")
		}
	}
	for _, c := range o.Missing.Columns {
		p.Add("missing", c, "error or mean: columns only with examples.from_topic")
	}
}

// checkMessages checks the keys that depend on the format of messages, and returns that format.
func (o Options) checkMessages(p *option.Problems) []format.Format {
	f, ok := o.messageFormat()
	if !ok {
		p.Add("format", option.Shown(o.Format), formatNames("", "or", format.Format.IsOfMessages)+", as examples.from_topic is set")
		return nil
	}
	if o.Header != nil && *o.Header {
		p.Add("header", "true", "false: the values of a topic have no header")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Offsets)) {
		_, notNumber := strconv.Atoi(name)
		if isFeature := slices.Contains(o.Columns.Use, name); !isFeature && (f.Width == nil || notNumber != nil) {
			p.Add("offsets", name, "columns of examples.columns.use; of CSV, the numbers of columns")
		}
	}
	o.checkSchema(p, f)
	for _, c := range o.Missing.Columns {
		if len(o.Columns.Use) > 0 && !slices.Contains(o.Columns.Use, c) {
			p.Add("missing", c, "columns that become features, and "+value.Quote(c)+" is none of examples.columns.use")
		}
	}
	if o.Outcome.Topic != "" { // which has the labels
		o.Options = o.Options.WithLabelLater()
	}
	switch {
	case f.Width != nil && o.rowsPath() != "":
		p.Add("rows", o.Rows, "no path: each line is a row")
	case f.Width == nil && len(o.Columns.Use) == 0 && o.Text == "":
		p.Add("columns.use", "[]", "the columns that become features: each message may have others")
	case f.Width == nil && len(o.Columns.Drop) > 0:
		p.Add("columns.drop", option.Shown(o.Columns.Drop), "no columns: only those of columns.use become features")
	}
	for _, c := range o.NamedColumns() {
		if f.Width != nil && c.IsName() {
			p.Add("format", o.Format, fmt.Sprintf("columns by their numbers, from 0, unlike %s: the values of a topic have no header",
				value.Quote(string(c))))
		}
	}
	return []format.Format{f}
}

// checkSchema checks the keys for the schema of a message format.
func (o Options) checkSchema(p *option.Problems, f format.Format) {
	kind := f.Schema
	switch {
	case kind.Type == "" && o.Schema != "":
		p.Add("schema", o.Schema, "no file: values in "+f.Name+" need no schema")
	case kind.Type != "" && o.Schema == "" && o.Registry.URL == "":
		p.Add("schema", "not set", "a file, such as events"+kind.Ending+", or examples.registry.url: values in "+f.Name+" need a schema")
	case o.Schema != "" && o.Registry.URL != "" && !kind.Beside:
		p.Add("schema", o.Schema, "no file with examples.registry: in "+f.Name+" each message says its schema there")
	}
	if o.Message != "" && (!kind.Named || o.Schema == "") {
		p.Add("message", o.Message, "no name: it is for formats whose files under examples.schema describe several messages")
	}
	if strings.HasPrefix(o.Registry.URL, "http:") && o.Registry.CA+o.Registry.Cert != "" {
		p.Add("registry.url", o.Registry.URL, "https, as certificates are set")
	}
	if f.Unframed && o.Registry.URL != "" {
		p.Add("registry.url", o.Registry.URL, "no registry: values in "+f.Name+" have no schema there")
	}
}
