package screen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/tree"
)

// Draft is a configuration to be written, and the table that it is derived from.
type Draft struct {
	File    string // as the configuration names it
	Options ingest.Options
	table   *Columns
}

// NewDraft returns the draft for a table in a file. The options say how it was read, and which column is the label. The
// configuration, which is to be written to output, names the file relative to its own folder.
func NewDraft(file, output string, o ingest.Options, t *Columns) (*Draft, error) {
	if err := t.assign(o.Label); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d := &Draft{File: file, Options: o, table: t}
	if !filepath.IsAbs(file) && output != StandardOutput {
		folder, err := filepath.Abs(filepath.Dir(output))
		to, errTo := filepath.Abs(file)
		if err := errors.Join(err, errTo); err != nil {
			return nil, err
		}
		if d.File, err = filepath.Rel(folder, to); err != nil {
			return nil, err
		}
	}
	if dropped := d.dropped(); len(dropped)+1 == len(t.list) {
		var why []string
		for _, a := range dropped[:min(len(dropped), 3)] {
			why = append(why, fmt.Sprintf("%s is dropped (%s)", a.key, a.why))
		}
		return nil, fmt.Errorf("%s: no feature columns remain: %s", file, cmp.Or(strings.Join(why, ", "), "it has only the label"))
	}
	return d, nil
}

// of returns the columns with one of some roles.
func (d *Draft) of(roles ...columnRole) (columns []*column) {
	for _, c := range d.table.list {
		if slices.Contains(roles, c.role) {
			columns = append(columns, c)
		}
	}
	return columns
}

// dropped returns the columns that are neither features nor the label.
func (d *Draft) dropped() []*column { return d.of(roleIdentifier, roleDate, roleConstant, roleUnused) }

// size describes the table.
func (d *Draft) size() string {
	return fmt.Sprintf("%s rows, %d columns", humanize.Comma(int64(d.table.list[0].rows)), len(d.table.list))
}

var (
	noTopicName = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)
	maxName     = 60
)

// DraftName returns the name of a pipeline for a file, or a folder.
func DraftName(file string) string {
	name := filepath.Base(file)
	for _, end := range []string{".gz", ".bz2", ".zst"} {
		name = strings.TrimSuffix(name, end)
	}
	name = strings.TrimSuffix(name, filepath.Ext(name))
	name = strings.Trim(noTopicName.ReplaceAllString(name, "-"), "-.")
	return cmp.Or(name[:min(len(name), maxName)], "table")
}

// label returns the column of labels or targets.
func (d *Draft) label() *column {
	return d.of(roleLabel, roleTarget)[0]
}

const (
	screenWidth = 80
	maxNameShow = 24 // of a column, on the screen
)

// Describe writes a line for each column: its use, and the reason.
func (d *Draft) Describe(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n\n", d.File, d.size())
	table, dropped := Table{Width: screenWidth}, d.dropped()
	table.Row("column", "use", "why")
	for _, a := range d.table.list {
		use, why := string(a.role), a.why
		if slices.Contains(dropped, a) {
			use, why = "dropped", a.dropped()
		}
		name := a.Name
		if name == "" || a.key != name {
			name = strings.TrimSpace(a.key + " " + name)
		}
		table.Row(Cut(name, maxNameShow), use, oneLine(why))
	}
	table.Write(w)
	for _, note := range d.notes() {
		fmt.Fprintf(w, "\n%s\n", note)
	}
}

// notes returns warnings about the data before training.
func (d *Draft) notes() (notes []string) {
	for _, a := range d.table.list {
		if format := a.formatted(); format != "" && strings.HasSuffix(a.why, format) {
			notes = append(notes, fmt.Sprintf("%s: %s to use them as numbers.", a.key, format))
		}
	}
	label := d.label()
	if label.role != roleLabel {
		return notes
	}
	words := label.frequent()
	if most, present := label.words[words[0]], label.present(); most*10 >= 9*present {
		notes = append(notes, fmt.Sprintf("%.3g %% of the rows are %s: always predicting it has an error of %.3g %%.",
			100*float64(most)/float64(present), words[0], 100*float64(present-most)/float64(present)))
	}
	if least := words[len(words)-1]; label.words[least] < 10 {
		notes = append(notes, fmt.Sprintf("The label %s has %s: too few to learn it or to measure its error.", least,
			rowCount(label.words[least])))
	}
	return notes
}

// oneLine replaces line breaks and other white space of a text by single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// comment returns a comment of a YAML file.
func comment(text string) string { return "# " + oneLine(text) }

// Configuration writes the configuration. from is the command line. Comments are aligned.
func (d *Draft) Configuration(w io.Writer, name, from string) {
	var t Table
	t.Row(comment(fmt.Sprintf("Written by `%s`: %s.", from, d.size())))
	t.Row("# `stagewise check -c FILE` shows what would run; docs/configuration.md describes all keys.")
	t.Row("name: "+scalar(name), "# prefix of the names of topics")
	t.Row()
	t.Row("examples:")
	t.Row("  train: [" + scalar(d.File) + "]")
	d.reading(&t)
	label := d.label()
	if label.role == roleTarget {
		t.Row("  targets: ["+scalar(label.key)+"]", comment(label.why))
	} else {
		t.Row("  label: "+scalar(label.key), comment(label.why))
	}
	d.features(&t)
	t.Row("  holdout: 0.2", "# fraction of the rows held out from training to measure the error")
	t.Row()
	if len(d.of(roleText)) > 0 { // its words are counted
		t.Row("prepare: {values: log1p, idf: 1, scale: unit}")
		t.Row("stages:")
		t.Row("  - {features: {kind: columns}, link: identity}")
	} else {
		t.Row("# Without `stages`, train and run choose them by the loss of held-out rows.")
	}
	t.Write(w)
}

// reading adds the keys that say how the file is read.
func (d *Draft) reading(t *Table) {
	o := d.Options
	for _, key := range [][2]string{{"format", o.Format}, {"delimiter", o.Delimiter}, {"encoding", o.Encoding}} {
		if key[1] != "" {
			t.Row("  " + key[0] + ": " + scalar(key[1]))
		}
	}
	if o.Header != nil {
		t.Row(fmt.Sprintf("  header: %v", *o.Header))
	}
	var odd []string // words for missing values that the options don't have
	for _, a := range d.of(roleNumber) {
		odd = append(odd, a.missingWords()...)
	}
	slices.Sort(odd)
	if len(odd) > 0 || !slices.Equal(o.MissingValues, ingest.Defaults().MissingValues) {
		t.Row("  missing_values: " + list(slices.Concat(o.MissingValues, slices.Compact(odd))) +
			"  # words for a missing value, in addition to an empty cell")
	}
}

// features adds the keys of the columns that are features, or not.
func (d *Draft) features(t *Table) {
	if texts := d.of(roleText); len(texts) > 0 {
		t.Row("  text: "+scalar(texts[0].key), comment(texts[0].why+": its words are counted"))
		return
	}
	if dropped := d.dropped(); len(dropped) > 0 {
		t.Row("  columns:")
		t.Row("    drop:", "# excluded from the features")
		for _, a := range dropped {
			why := a.dropped()
			if a.role == roleDate {
				why += "; written as 2026-11-01T09:30:00 it can be listed under times"
			}
			t.Row("      - "+scalar(a.key), comment(why))
		}
	}
	if words := d.of(roleCategory); len(words) > 0 {
		t.Row("  categorical:", "# columns of words")
		for _, a := range words {
			why := a.why
			if len(a.words) > tree.MaxWords {
				why += fmt.Sprintf("; trees tell %d of them apart", tree.MaxWords)
			}
			t.Row("    - "+scalar(a.key), comment(why))
		}
	}
	if times := d.of(roleTime); len(times) > 0 {
		t.Row("  times:", "# date and time columns, and the numeric features derived from them")
		for _, a := range times {
			t.Row("    "+scalar(a.key)+": "+list(a.parts()), comment(a.why))
		}
	}
	var names []string // of the features that lack values
	for _, a := range slices.Concat(d.of(roleNumber), d.of(roleCategory), d.of(roleTime)) {
		if a.missing > 0 || len(a.missingWords()) > 0 {
			names = append(names, a.key)
		}
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	if len(names) > 0 {
		t.Row("  missing: mean", comment("cells without a value are allowed; trees distinguish them: "+strings.Join(names, ", ")))
	}
}

var plain = regexp.MustCompile(`^(\.{0,2}/)*[A-Za-z_]([A-Za-z0-9_./ -]*[A-Za-z0-9_.])?$|^(0|[1-9][0-9]*)$`)

// reserved matches words that YAML does not read as text.
var reserved = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|nan|inf)$`)

// scalar writes a text as YAML: plain if it is unambiguous. The number of a column stays a number.
func scalar(text string) string {
	if plain.MatchString(text) && !reserved.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = scalar(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
