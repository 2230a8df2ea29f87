// Package ingest reads examples from files and publishes them on the examples topic.
//
// Sources returns a Source for each file, or for each idx pair of images and labels. The batches of a source depend only
// on the files' bytes and the options. So Publish continues an interrupted ingest, and a source that is on the topic is
// identified by its ID and not published again. Package pipeline/protocol selects the messages that count when a worker
// reads the topic.
//
// Each input format is in a package under ingest/format, and has a line in the table of format.go. Package layout assigns
// roles to columns and counts the words of texts, and package input opens files, compressed or not.
package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Source is a file, or several files that belong together, such as images and labels in idx. Sources returns it; the zero
// value can't be read.
type Source struct {
	// ID is the digest of the files' bytes and of how their columns are read. So the same examples have the same ID under any
	// name, in any split, and with any message size, and count once.
	ID    string
	Split examples.Split // what the examples are for
	Files []string       // in the order of the options, with their displayed names
	Width int            // number of features of each example
	// Columns are the columns of the features; nil if the files don't include them.
	Columns examples.Columns
	// Vocabulary has the words and phrases of texts, in column order; nil if there are no texts, or if their columns are
	// hashed.
	Vocabulary []string
	// Extent is the columns of sparse rows that were converted to dense ones; zero: none.
	Extent layout.Extent

	format  format.Format
	options Options
	all     *format.Collected // nil: the first error of a column ends the reading
	opened  []string          // file names from the options
	stored  []stored          // Files
	reading layout.Reading    // how their columns are read
	after   int64             // number of leading rows that belong to other sources: see Rest
}

// errNoLabels is the error of a source without any label.
var errNoLabels = errors.New("no row has a label: check examples.label (the label column) and examples.missing_values " +
	"(the words for a missing label)")

// identity is the JSON whose digest is the ID of a source. So the names and the order of the fields must not change.
type identity struct {
	Files  []wire.Digest
	Format string
	layout.Reading
	After int64 `json:",omitempty"`
}

// Sources returns the sources of the options' files, in order, training sources first. It reads every file once, for its
// digest and for the words of Categorical and of a counted vocabulary, and its first rows again to validate them. So a
// missing file, a file of another format, and a file with other features than the first are a *input.Error before anything
// is published. An option that does not pass Check is a schemas.Problem.
func Sources(ctx context.Context, o Options) ([]Source, error) {
	return find(ctx, o, nil)
}

// find is Sources, unless all errors of columns are collected. Then it reads the first rows of each file, and more only to find the
// words of Categorical and of a counted vocabulary. So the sources have no ID, and files with the same bytes are not detected.
func find(ctx context.Context, o Options, collected *format.Collected) ([]Source, error) {
	if problems := o.Check(); problems != nil {
		return nil, problems[0]
	}
	o, err := o.withFiles()
	if err != nil {
		return nil, err
	}
	if o, err = o.findWords(ctx, collected); err != nil {
		return nil, err
	}
	if o, err = o.findExtent(ctx); err != nil {
		return nil, err
	}
	if o, err = o.findOffsets(ctx); err != nil {
		return nil, err
	}
	o.Options = o.After(o.Found.Learnt)
	train, err := sources(ctx, o, examples.Train, o.Train, collected)
	if err != nil {
		return nil, err
	}
	if len(o.Train) > 0 && len(train) == 0 {
		return nil, input.WholeFile(o.Train[0], errors.New("no rows in this part or any other"))
	}
	test, err := sources(ctx, o, examples.Test, o.Test, collected)
	if err != nil {
		return nil, err
	}
	all := append(train, test...)
	if collected != nil && len(collected.Errors) > 0 {
		return all, nil // of files without the columns that have errors
	}
	for i, s := range all {
		if err := o.Found.Learnt.Check(s.Width, s.Columns); err != nil {
			return nil, input.WholeFile(s.Files[0], err)
		}
		first := &layout.Learnt{File: all[0].Files[0], Sparse: all[0].Width == 0, Width: all[0].Width, Columns: all[0].Columns}
		if err := first.Check(s.Width, s.Columns); err != nil {
			e := input.WholeFile(s.Files[0], err)
			if s.format.HasHeader && s.Columns != nil {
				e.Line = 1
			}
			return nil, e
		}
		if j := slices.IndexFunc(all[:i], func(other Source) bool { return s.ID != "" && other.ID == s.ID }); j >= 0 {
			return nil, input.WholeFile(s.Files[0], fmt.Errorf("the same bytes as %s: an example can't count twice", all[j].Files[0]))
		}
	}
	return all, nil
}

// sources returns the sources of one split.
func sources(ctx context.Context, o Options, split examples.Split, files []string, all *format.Collected) ([]Source, error) {
	var found []Source
	for len(files) > 0 {
		f, err := o.formatOfFile(ctx, files[0])
		if o.isEmptyPart(files[0], err) {
			files = files[1:]
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(files) < f.Files {
			return nil, input.WholeFile(shown(files[0]), fmt.Errorf("no file follows it: expected %s %s", f.Name, f.WantFiles))
		}
		s := Source{Split: split, Vocabulary: o.Words.Counted(), Extent: o.Found.Extent, format: f, options: o,
			all: all, opened: files[:f.Files:f.Files]}
		for _, name := range s.opened {
			s.Files = append(s.Files, shown(name))
		}
		files = files[f.Files:]
		if all == nil {
			if err := s.digest(ctx); err != nil {
				return nil, err
			}
		}
		if err := s.describe(ctx); err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

// formatOfFile returns the format of a file. A part without rows is an input.EmptyError. Other errors of its rows are reported when it
// is read.
func (o Options) formatOfFile(ctx context.Context, name string) (f format.Format, err error) {
	c, f, err := o.openAs(ctx, name)
	if err != nil {
		return f, err
	}
	defer c.Close()
	if !o.isPart(name) || f.Files > 1 {
		return f, nil
	}
	r, err := f.Open([]*input.Content{c}, o.Options, nil, nil)
	if err == nil {
		_, err = r.Next()
	}
	if !errors.As(err, new(input.EmptyError)) {
		err = ctx.Err()
	}
	return f, err
}

// digest reads the files for their digests.
func (s *Source) digest(ctx context.Context) error {
	for _, name := range s.opened {
		c, err := s.options.openContent(ctx, name)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, c.File)
		c.Close()
		if err != nil {
			return input.WholeFile(c.Name, err)
		}
		s.stored = append(s.stored, stored{c.Digest(), c.Bytes(), c.Kind != ""})
	}
	return nil
}

// describe sets the ID, if there are digests, and the width and the names of the features.
func (s *Source) describe(ctx context.Context) error {
	r, opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll(opened)
	if s.stored != nil {
		if r.Reading != nil {
			s.reading = r.Reading()
		}
		s.reading.Encoding = s.options.Encoding
		columns, others := s.options.columnsOf(s.opened[0])
		for _, v := range columns {
			s.reading.Path = append(s.reading.Path, v.Column+"="+v.Text)
		}
		for _, v := range others { // not a column, but equal files in two folders are two sources
			s.reading.Path = append(s.reading.Path, "/"+v.Column+"="+v.Text)
		}
		var digests []wire.Digest
		for _, file := range s.stored {
			digests = append(digests, file.digest)
		}
		s.ID = s.idOf(0, digests...)
	}
	s.Width, s.Columns = r.Width, r.Columns
	if shape := s.options.Shape(); shape != (examples.Image{}) && shape.Size() != s.Width && (s.all == nil || len(s.all.Errors) == 0) {
		return input.WholeFile(s.Files[0], fmt.Errorf("%d features, but examples.image %v has %d: expected the same number", s.Width,
			s.options.Image, shape.Size()))
	}
	if s.Split != examples.Train || r.Inspect == nil { // a few test rows prove nothing
		return nil
	}
	return r.Inspect()
}

// open returns a reader of the source and its files. The caller closes the files, unless there is an error.
func (s *Source) open(ctx context.Context) (r *format.Reader, opened []*input.Content, err error) {
	defer func() {
		if err != nil {
			closeAll(opened)
		}
	}()
	for _, name := range s.opened {
		c, err := s.options.openContent(ctx, name)
		if err != nil {
			return nil, opened, err
		}
		opened = append(opened, c)
		if err := s.options.decode(c, s.format); err != nil {
			return nil, opened, err
		}
	}
	r, err = s.format.Open(opened, s.options.Options, nil, s.all)
	return r, opened, err
}

func closeAll(contents []*input.Content) {
	for _, c := range contents {
		c.Close() // the file was only read, so the error is irrelevant
	}
}

// batches reads the source in order, in batches of at most BatchRows rows that fit into a message. The batches depend only
// on the files' bytes and the options. An error is the last value; it is a *input.Error or the context's error. At the end it calls lost,
// unless it is nil, with the columns that most rows lack from some row on, and the number of these rows.
//
// A batch is valid until the next one is read, which overwrites its columns.
func (s Source) batches(ctx context.Context, lost func(map[string]int64)) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		r, opened, err := s.open(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer closeAll(opened)
		counted, labelled := 0, 0 // numbers of rows
		for rows, err := range format.BatchesOf(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
			}
			if shape := s.options.Shape(); shape != (examples.Image{}) {
				rows.Image = shape
			}
			counted, labelled = counted+rows.Rows, labelled+rows.Rows-int(rows.WithoutLabel())
			if before := int(s.after) - (counted - rows.Rows); before >= rows.Rows {
				continue
			} else if before > 0 {
				rows = rows.Slice(before, rows.Rows)
			}
			if s.Split != examples.Train {
				rows.Splits = slices.Repeat([]examples.Split{s.Split}, rows.Rows)
			}
			if !yield(rows, nil) {
				return
			}
		}
		if lost != nil && len(r.Lost) > 0 {
			lost(r.Lost)
		}
		if s.stored == nil { // not read to be ingested
			return
		}
		if counted > 0 && labelled == 0 && len(s.options.Targets) == 0 {
			yield(nil, input.WholeFile(s.Files[0], s.noLabels()))
			return
		}
		for i, c := range opened {
			if c.Digest() != s.stored[i].digest {
				yield(nil, input.WholeFile(c.Name, errors.New("the file changed while it was ingested")))
				return
			}
		}
	}
}

// noLabels is the error of a source without any label.
func (s Source) noLabels() error {
	label := cmp.Or(s.options.Label, s.format.Label)
	for _, v := range s.options.parts[s.opened[0]] {
		if v.Null && v.Column == string(label) {
			return v.NullError(errors.New("no row has a label"))
		}
	}
	return errNoLabels
}

// File reads rows to predict from a file, in batches like those of a Source, without weights, and without labels unless want has Truth.
// want describes the model's needs; if the file does not match, the error is a *input.Error. A CSV with a header may have
// its columns in any order, and additional ones. In one without, columns that the options give by name are ignored. For
// idx it is the file of images. A directory of tables is read table by table.
func File(ctx context.Context, name string, o Options, want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		tables, values, err := folderTables(name)
		if err != nil {
			yield(nil, err)
			return
		}
		isFolder := len(tables) > 0
		if o.Mode, o.parts = layout.Predicting, values; !isFolder {
			tables = []string{name}
		}
		for _, table := range tables {
			for rows, err := range o.toPredict(ctx, table, want) {
				if isFolder && errors.As(err, new(input.EmptyError)) {
					break
				}
				if !yield(rows, err) || err != nil {
					return
				}
			}
		}
	}
}

// toPredict is File for a file.
func (o Options) toPredict(ctx context.Context, file string, want layout.Features) iter.Seq2[*examples.Rows, error] {
	return func(yield func(*examples.Rows, error) bool) {
		checked := o
		if o.Header != nil && !*o.Header {
			checked.Header = nil // training files may have one
		}
		if problems := checked.check([]string{file}); problems != nil {
			yield(nil, problems[0])
			return
		}
		c, f, err := o.openAs(ctx, file)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.Close()
		if want.Truth {
			err = checkTable(f, c.Name, "")
		}
		var r *format.Reader
		if err == nil {
			r, err = f.Open([]*input.Content{c}, o.Options, &want, nil)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		format.BatchesOf(ctx, r)(yield)
	}
}

// TrainedOn returns the options for reading rows to predict in the way that a run read its training files.
func TrainedOn(plan *schemas.Plan) Options {
	o := Defaults()
	o.Format, o.Options = plan.Input.Format, layout.TrainedAs(plan)
	return o
}

// Survey adds the rows of a file, or of the tables in a directory, to a survey of columns without roles. It only uses the options for
// reading files. A file that is not a table is a *input.Error.
func Survey(ctx context.Context, name string, o Options, s layout.Survey) error {
	o.Train, o.Test, o.Mode = []string{name}, nil, layout.Describing
	o, err := o.withFiles()
	if err != nil {
		return err
	}
	seen := false
	for _, file := range o.Train {
		c, f, err := o.openAs(ctx, file)
		if err == nil {
			if err = checkTable(f, c.Name, ""); err == nil {
				err = f.Survey(c, o.Options, s, nil)
			}
			c.Close()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			seen = true
		case !o.isEmptyPart(file, err):
			return err
		}
	}
	if !seen {
		return input.WholeFile(name, errors.New("no rows in this part or any other"))
	}
	return nil
}

// checkCells is the number of values to read from all files together, beyond the first batch of each.
const checkCells = 64 << 20

// Troubles reads the files of the options as Sources and Publish do, and returns the sources and whether all of their rows
// were read, or all errors in the files: the first error of each column. Of large files it reads as much as takes a few
// seconds. An option that does not pass Check is a schemas.Problem.
func Troubles(ctx context.Context, o Options) (sources []Source, whole bool, troubles []error) {
	var all format.Collected
	sources, err := find(ctx, o, &all)
	cells := 0
	whole = true
	for i := 0; i < len(sources) && err == nil; i++ { // of each at least a batch
		var rows *examples.Rows
		for rows, err = range sources[i].batches(ctx, nil) {
			if err != nil {
				break
			}
			if cells += rows.Rows * max(rows.Cols, 1); cells > checkCells {
				whole = false
				break
			}
		}
	}
	if err != nil && !(errors.Is(err, layout.ErrNoFeature) && len(all.Errors) > 0) { // all columns have errors
		all.Errors = append(all.Errors, err)
	}
	if len(all.Errors) > 0 {
		return nil, false, all.Errors
	}
	return sources, whole, nil
}

// stored is a file that was read completely.
type stored struct {
	digest     wire.Digest
	bytes      int64
	compressed bool
}

// survey adds the rows of a file to a survey, if its format satisfies is. An empty part is skipped.
func (o Options) survey(ctx context.Context, file string, is func(format.Format) bool, s layout.Survey, all *format.Collected) error {
	c, f, err := o.openAs(ctx, file)
	if err == nil {
		defer c.Close()
		if is(f) {
			err = f.Survey(c, o.Options, s, all)
		}
	}
	if o.isEmptyPart(file, err) {
		return nil
	}
	return err
}

// findWords returns the options with the words of each categorical column of the training files, sorted, and with the vocabulary of their
// texts.
func (o Options) findWords(ctx context.Context, all *format.Collected) (Options, error) {
	if !o.FindsWords() || len(o.Train) == 0 {
		return o, nil
	}
	found := layout.NewFoundWords(o.Options)
	for _, file := range o.Train {
		if err := o.survey(ctx, file, format.Format.IsTable, found, all); err != nil {
			return o, err
		}
	}
	with, err := o.WithWords(found)
	if err != nil {
		return o, input.WholeFile(shown(o.Train[0]), err)
	}
	o.Options = with
	return o, nil
}

// findExtent returns the options with the columns of sparse rows that are converted to dense ones, from the files.
func (o Options) findExtent(ctx context.Context) (Options, error) {
	if how := o.density(); how == rowsSparse || how == rowsAuto && !o.Dense {
		return o, nil
	}
	o.Found.Extent = layout.Extent{} // the rows are read as they are
	found, extent := layout.NewFoundExtent(), layout.Extent{}
	for _, file := range slices.Concat(o.Train, o.Test) {
		err := o.survey(ctx, file, func(f format.Format) bool { return f.IsSparse }, found, nil)
		if err != nil {
			return o, err
		}
		if extent, err = found.After(o.Found.Learnt); err != nil {
			return o, input.WholeFile(shown(file), err)
		}
	}
	if found, ok := found.Extent(); ok && (o.density() == rowsDense || found.Width <= maxDense) {
		o.Found.Extent = extent
	}
	return o, nil
}

// findOffsets returns the options with the offsets of columns, from the first rows of the first training file that has any. Errors are
// reported when the rows are read.
func (o Options) findOffsets(ctx context.Context) (Options, error) {
	found := layout.Spreads{}
	for _, file := range o.Train {
		if err := o.survey(ctx, file, format.Format.IsTable, found, nil); ctx.Err() != nil {
			return o, err
		}
		if len(found) > 0 || !o.isPart(file) {
			break
		}
	}
	o.Found.Offsets = found.Offsets(1)
	return o, nil
}

// idOf returns the ID that the source has if its files have the given digests, and its first after rows belong to other sources.
func (s *Source) idOf(after int64, digests ...wire.Digest) string {
	return string(wire.DigestJSON(identity{digests, s.format.Name, s.reading, after}))
}

// isFile reports whether the source is a single file, other than a directory or archive of images.
func (s *Source) isFile() bool { return len(s.stored) == 1 && !s.format.ReadsFolders }

// Begun returns the seals whose files are the source's file or a prefix of it, because a log file has grown since it was
// ingested. It reads the file once.
func (s *Source) Begun(ctx context.Context, seals []*schemas.SourceSeal) (begun []*schemas.SourceSeal, err error) {
	if !s.isFile() {
		return nil, nil
	}
	var shorter []*schemas.SourceSeal
	for _, seal := range seals {
		if seal.Bytes > 0 && seal.Bytes <= s.stored[0].bytes && seal.Split == s.Split.String() {
			shorter = append(shorter, seal)
		}
	}
	if len(shorter) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(shorter, func(a, b *schemas.SourceSeal) int { return cmp.Compare(a.Bytes, b.Bytes) })
	file, err := s.options.open(s.opened[0])
	if err != nil {
		return nil, input.WholeFile(s.Files[0], err)
	}
	defer file.Close()
	sum, read := sha256.New(), int64(0)
	for _, seal := range shorter {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(sum, file, seal.Bytes-read)
		}
		if err != nil {
			return nil, input.WholeFile(s.Files[0], err)
		}
		if read = seal.Bytes; hex.EncodeToString(sum.Sum(nil)) == string(seal.Content) {
			begun = append(begun, seal)
		}
	}
	return begun, nil
}

// Parts returns the seals of the sources that the source's file starts with, if they were read like the source, in row
// order: that of the file as first ingested, then those of added rows. begun are those of Begun. It returns nil if there
// are none, or some are missing.
func (s *Source) Parts(begun []*schemas.SourceSeal) (parts []*schemas.SourceSeal) {
	own := func(seal *schemas.SourceSeal) bool { return seal.ID == s.idOf(seal.After, seal.Content) }
	longest := int64(0)
	for _, seal := range begun {
		if own(seal) {
			longest = max(longest, seal.Bytes)
		}
	}
	ends := func(seal *schemas.SourceSeal) bool { return own(seal) && seal.Bytes == longest }
	for {
		i := slices.IndexFunc(begun, ends)
		if i < 0 {
			return nil
		}
		parts = append(parts, begun[i])
		at := begun[i]
		if at.After == 0 {
			slices.Reverse(parts)
			return parts
		}
		ends = func(seal *schemas.SourceSeal) bool {
			return own(seal) && seal.Bytes < at.Bytes && seal.After+seal.Rows == at.After
		}
	}
}

// Rest returns the source of the file's rows after those of earlier sources. last is the seal of the last of these. ok is
// false if there are no further rows. If the last row was incomplete when it was ingested, or the file is compressed, it
// returns a *input.Error.
func (s *Source) Rest(last *schemas.SourceSeal) (rest Source, ok bool, err error) {
	if last.Bytes == s.stored[0].bytes {
		return rest, false, nil
	}
	begins := fmt.Sprintf("the file begins with the bytes of %s, which is already ingested as source %s", last.Files,
		wire.Digest(last.ID).Short())
	advice := "exclude that source with `stagewise sources remove`, so that its rows count once"
	why := ""
	switch {
	case s.stored[0].compressed:
		why = "rows added to a compressed file can't be ingested separately: decompress it, or "
	case !s.format.IsText:
		why = "rows added to a file in the format " + s.format.Name + " can't be ingested separately: write them to another file, or "
	default:
		file, err := s.options.open(s.opened[0])
		if err != nil {
			return rest, false, input.WholeFile(s.Files[0], err)
		}
		defer file.Close()
		if whole, err := input.EndsRow(file, last.Bytes); err != nil {
			return rest, false, input.WholeFile(s.Files[0], err)
		} else if !whole {
			why = "its last row was incomplete: "
		}
	}
	if why != "" {
		return rest, false, input.WholeFile(s.Files[0], fmt.Errorf("%s: %s%s", begins, why, advice))
	}
	rest = *s
	rest.after = last.After + last.Rows
	rest.ID = rest.idOf(rest.after, s.stored[0].digest)
	return rest, true, nil
}

// Attempt is an attempt at publishing a source. If it was interrupted, Spans has the offsets of its existing messages.
type Attempt struct {
	// ID distinguishes the messages of this attempt from those of other attempts at the same source.
	ID string
	// Spans has an element for each partition of the topic, at least one, with the offsets of this attempt's messages, which
	// are the first sequence numbers of that partition. Empty: none.
	Spans []coverage.Span
}

// queueLength is the maximum number of encoded messages that wait for the writer of a partition.
const queueLength = 4

// Publish writes the messages of a source that are not yet on the examples topic and returns the seal of the source. The
// messages count only after the caller has written the seal. Sequence number s is written to partition s mod the number of
// partitions, from one goroutine for each partition, by write, which returns the offset of the first message. After each batch, Publish
// calls progress with the number of rows so far, including existing ones. At the end it calls lost with the columns that most rows lack
// from some row on, although earlier rows had them, and the number of these rows.
func Publish(ctx context.Context, s Source, attempt Attempt,
	write func(ctx context.Context, partition int, messages ...wire.Message) (int64, error), mem memory.Allocator,
	progress func(rows int64), lost func(columns map[string]int64)) (*schemas.SourceSeal, error) {
	spans := slices.Clone(attempt.Spans)
	partitions := int64(len(spans))
	seal := &schemas.SourceSeal{ID: s.ID, Attempt: attempt.ID, Split: s.Split.String(), Partitions: len(spans), After: s.after}
	for _, f := range s.Files {
		seal.Files = append(seal.Files, filepath.Base(f))
	}
	if s.isFile() {
		seal.Content, seal.Bytes = s.stored[0].digest, s.stored[0].bytes
	}
	group, ctx := errgroup.WithContext(ctx)
	queues := make([]chan wire.Message, partitions)
	for p := range queues {
		queue := make(chan wire.Message, queueLength)
		queues[p] = queue
		group.Go(func() error {
			for m := range queue {
				at, err := write(ctx, p, m)
				if err != nil {
					return err
				}
				if spans[p].Empty() {
					spans[p].From = at
				}
				spans[p].To = at + 1
			}
			return nil
		})
	}
	group.Go(func() error {
		defer func() {
			for _, queue := range queues {
				close(queue)
			}
		}()
		for rows, err := range s.batches(ctx, lost) {
			if err != nil {
				return err
			}
			if p := seal.Messages % partitions; seal.Messages/partitions >= attempt.Spans[p].Len() { // it is not there yet
				m, err := schemas.Origin{Source: seal.ID, Attempt: seal.Attempt, Sequence: seal.Messages}.Message(rows, mem)
				if err != nil {
					return err
				}
				select {
				case queues[p] <- m:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			seal.Messages++
			seal.Rows += int64(rows.Rows)
			progress(seal.Rows)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var err error
	if seal.Spans, err = seal.Spans.Union(spans); err != nil {
		return nil, fmt.Errorf("seal %v: %w", s.Files, err)
	}
	return seal, nil
}
