package screen

import (
	"cmp"
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
		var err error
		if d.File, err = relativeTo(filepath.Dir(output), file); err != nil {
			return nil, err
		}
	}
	isFeature := func(a *column) bool {
		return !a.role.isDropped() && a.role != roleLabel && a.role != roleTarget
	}
	if !slices.ContainsFunc(t.list, isFeature) {
		var why []string
		for _, a := range d.with(columnRole.isDropped) {
			if why = append(why, fmt.Sprintf("%s is dropped (%s)", a.key, a.why)); len(why) == 3 {
				break
			}
		}
		return nil, fmt.Errorf("%s: no feature columns remain: %s", file, cmp.Or(strings.Join(why, ", "), "it has only the "+
			"label"))
	}
	return d, nil
}

// relativeTo returns a path from a folder.
func relativeTo(folder, path string) (string, error) {
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// with returns the columns whose role meets a condition.
func (d *Draft) with(is func(columnRole) bool) (columns []*column) {
	for _, a := range d.table.list {
		if is(a.role) {
			columns = append(columns, a)
		}
	}
	return columns
}

func (d *Draft) of(role columnRole) []*column {
	return d.with(func(other columnRole) bool { return other == role })
}

// incomplete returns the features that lack values.
func (d *Draft) incomplete() []*column {
	columns := slices.Concat(d.of(roleNumber), d.of(roleCategory), d.of(roleTime))
	return slices.DeleteFunc(columns, func(a *column) bool { return a.missing == 0 && len(a.missingWords()) == 0 })
}

// missingWords returns the words for missing values that the options don't have.
func (d *Draft) missingWords() (words []string) {
	for _, a := range d.of(roleNumber) {
		words = append(words, a.missingWords()...)
	}
	slices.Sort(words)
	return slices.Compact(words)
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
	return d.with(func(r columnRole) bool { return r == roleLabel || r == roleTarget })[0]
}

const (
	screenWidth = 80
	maxNameShow = 24 // of a column, on the screen
)

// Describe writes a line for each column: its use, and the reason.
func (d *Draft) Describe(w io.Writer) {
	fmt.Fprintf(w, "%s: %s rows, %d columns\n\n", d.File, humanize.Comma(int64(d.table.rows())), len(d.table.list))
	table := Table{Width: screenWidth}
	table.Row("column", "use", "why")
	for _, a := range d.table.list {
		use, why := string(a.role), a.why
		if a.role.isDropped() {
			use = "dropped"
			if a.role != roleUnused {
				why = string(a.role) + ": " + why
			}
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
	words, _ := label.counted()
	if most, present := words[0], label.present(); most.rows*10 >= 9*present {
		notes = append(notes, fmt.Sprintf("%.3g %% of the rows are %s: always predicting it has an error of %.3g %%.",
			100*float64(most.rows)/float64(present), most.text, 100*float64(present-most.rows)/float64(present)))
	}
	if least := words[len(words)-1]; least.rows < 10 {
		notes = append(notes, fmt.Sprintf("The label %s has %s: too few to learn it or to measure its error.", least.text, rowCount(least.rows)))
	}
	return notes
}

// holdout is the fraction of the rows that measures the models of a draft.
const holdout = 0.2

// lines are the lines of a YAML file, some with a comment.
type lines []line

type line struct{ text, comment string }

func (l *lines) add(text, comment string) { *l = append(*l, line{text, comment}) }

// maxAligned is the maximum length of lines whose comments are aligned.
const maxAligned = 40

func (l lines) String() string {
	var out strings.Builder
	widest := 0
	for _, line := range l {
		if n := len(line.text); line.comment != "" && n <= maxAligned {
			widest = max(widest, n)
		}
	}
	for _, line := range l {
		switch {
		case line.comment == "":
			out.WriteString(line.text)
		case line.text == "":
			out.WriteString("# " + oneLine(line.comment))
		default:
			fmt.Fprintf(&out, "%-*s  # %s", widest, line.text, oneLine(line.comment))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// oneLine replaces line breaks and other white space of a text by single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Configuration returns the configuration. from is the command line.
func (d *Draft) Configuration(name, from string) string {
	var l lines
	l.add("", fmt.Sprintf("Written by `%s`: %s rows, %d columns.", from, humanize.Comma(int64(d.table.rows())), len(d.table.list)))
	l.add("", "`stagewise check -c FILE` shows what would run; docs/configuration.md describes all keys.")
	l.add("name: "+scalar(name), "prefix of the names of topics")
	l.add("", "")
	l.add("examples:", "")
	l.add("  train: ["+scalar(d.File)+"]", "")
	d.reading(&l)
	label := d.label()
	if label.role == roleTarget {
		l.add("  targets: ["+scalar(label.key)+"]", label.why)
	} else {
		l.add("  label: "+scalar(label.key), label.why)
	}
	d.features(&l)
	l.add(fmt.Sprintf("  holdout: %v", holdout), "fraction of the rows held out from training to measure the error")
	l.add("", "")
	if len(d.of(roleText)) > 0 { // its words are counted
		l.add("prepare: {values: log1p, idf: 1, scale: unit}", "")
		l.add("stages:", "")
		l.add("  - {features: {kind: columns}, link: identity}", "")
	} else {
		l.add("", "Without `stages`, train and run choose them by the loss of held-out rows.")
	}
	return l.String()
}

// reading adds the keys that say how the file is read.
func (d *Draft) reading(l *lines) {
	o, defaults := d.Options, ingest.Defaults()
	for _, key := range [][2]string{{"format", o.Format}, {"delimiter", o.Delimiter}, {"encoding", o.Encoding}} {
		if key[1] != "" {
			l.add("  "+key[0]+": "+scalar(key[1]), "")
		}
	}
	if o.Header != nil {
		l.add(fmt.Sprintf("  header: %v", *o.Header), "")
	}
	words := d.missingWords()
	if len(words) > 0 || !slices.Equal(o.MissingValues, defaults.MissingValues) {
		l.add("  missing_values: "+list(slices.Concat(o.MissingValues, words)), "words for a missing value, in addition to an empty "+
			"cell")
	}
}

// features adds the keys of the columns that are features, or not.
func (d *Draft) features(l *lines) {
	if texts := d.of(roleText); len(texts) > 0 {
		l.add("  text: "+scalar(texts[0].key), texts[0].why+": its words are counted")
		return
	}
	if dropped := d.with(columnRole.isDropped); len(dropped) > 0 {
		l.add("  columns:", "")
		l.add("    drop:", "excluded from the features")
		for _, a := range dropped {
			why := string(a.role) + ": " + a.why
			switch a.role {
			case roleDate:
				why += "; written as 2026-11-01T09:30:00 it can be listed under times"
			case roleUnused:
				why = a.why
			}
			l.add("      - "+scalar(a.key), why)
		}
	}
	if words := d.of(roleCategory); len(words) > 0 {
		l.add("  categorical:", "columns of words")
		for _, a := range words {
			why := a.why
			if list, _ := a.counted(); len(list) > tree.MaxWords {
				why += fmt.Sprintf("; trees tell %d of them apart", tree.MaxWords)
			}
			l.add("    - "+scalar(a.key), why)
		}
	}
	if times := d.of(roleTime); len(times) > 0 {
		l.add("  times:", "date and time columns, and the numeric features derived from them")
		for _, a := range times {
			l.add("    "+scalar(a.key)+": "+list(a.parts()), a.why)
		}
	}
	if lacking := d.incomplete(); len(lacking) > 0 {
		var names []string
		for _, a := range lacking[:min(len(lacking), 3)] {
			names = append(names, a.key)
		}
		if more := len(lacking) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		l.add("  missing: mean", "cells without a value are allowed; trees distinguish them: "+strings.Join(names, ", "))
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
