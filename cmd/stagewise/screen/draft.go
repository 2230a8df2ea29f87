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
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/profile"
	"github.com/stagewise/stagewise/internal/tree"
)

// Draft is a configuration to be, and what it follows from.
type Draft struct {
	File    string // as the configuration names it
	Options ingest.Options
	Table   *profile.Table
	Roles   []profile.Assigned
}

// NewDraft returns the draft for a table in a file. The options say how it was read, and which column is the label. The
// configuration, which is to be written to output, names the file relative to its own folder.
func NewDraft(file, output string, o ingest.Options, t *profile.Table) (*Draft, error) {
	roles, err := t.Roles(o.Label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d := &Draft{File: file, Options: o, Table: t, Roles: roles}
	if !filepath.IsAbs(file) && output != StandardOutput {
		if d.File, err = relativeTo(filepath.Dir(output), file); err != nil {
			return nil, err
		}
	}
	isFeature := func(a profile.Assigned) bool {
		return !a.Role.IsDropped() && a.Role != profile.Label && a.Role != profile.Target
	}
	if !slices.ContainsFunc(roles, isFeature) {
		var why []string
		for _, a := range d.with(profile.Role.IsDropped) {
			if why = append(why, fmt.Sprintf("%s is dropped (%s)", d.key(a), a.Why)); len(why) == 3 {
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

// with returns the columns that have a role.
func (d *Draft) with(is func(profile.Role) bool) (columns []profile.Assigned) {
	for _, a := range d.Roles {
		if is(a.Role) {
			columns = append(columns, a)
		}
	}
	return columns
}

func (d *Draft) of(role profile.Role) []profile.Assigned {
	return d.with(func(other profile.Role) bool { return other == role })
}

// texts reports whether the features are counts of words.
func (d *Draft) texts() bool { return len(d.of(profile.Text)) > 0 }

// incomplete returns the features that lack values.
func (d *Draft) incomplete() []profile.Assigned {
	columns := slices.Concat(d.of(profile.Number), d.of(profile.Category), d.of(profile.Time))
	return slices.DeleteFunc(columns, func(a profile.Assigned) bool { return a.Missing == 0 && len(a.MissingWords()) == 0 })
}

// missingWords returns the words for missing values that the options don't have.
func (d *Draft) missingWords() (words []string) {
	for _, a := range d.of(profile.Number) {
		words = append(words, a.MissingWords()...)
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

// label is the column that is predicted, and its role.
func (d *Draft) label() profile.Assigned {
	return d.with(func(r profile.Role) bool { return r == profile.Label || r == profile.Target })[0]
}

// key returns how the configuration names a column.
func (d *Draft) key(a profile.Assigned) layout.Column { return layout.Column(a.Key(d.Table)) }

const (
	screenWidth = 80
	maxNameShow = 24 // of a column, on the screen
)

// Describe writes a line for each column: what it is for, and why.
func (d *Draft) Describe(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s rows, %d columns\n\n", d.File, humanize.Comma(int64(d.Table.Rows())), len(d.Roles))
	table := Table{Width: screenWidth}
	table.Row("column", "use", "why")
	for _, a := range d.Roles {
		use, why := string(a.Role), a.Why
		if a.Role.IsDropped() {
			use = "dropped"
			if a.Role != profile.Unused {
				why = string(a.Role) + ": " + why
			}
		}
		name := a.Name
		if name == "" || string(d.key(a)) != name {
			name = strings.TrimSpace(string(d.key(a)) + " " + name)
		}
		table.Row(Cut(name, maxNameShow), use, oneLine(why))
	}
	if err := table.Write(&out); err != nil {
		return err
	}
	for _, note := range d.notes() {
		out.WriteString("\n" + note + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// notes says what people should know before they train.
func (d *Draft) notes() (notes []string) {
	for _, a := range d.Roles {
		if format := a.Formatted(); format != "" && strings.HasSuffix(a.Why, format) {
			notes = append(notes, fmt.Sprintf("%s: %s to use them as numbers.", d.key(a), format))
		}
	}
	label := d.label()
	if label.Role != profile.Label {
		return nil
	}
	words, _ := label.Words()
	if most, present := words[0], label.Present(); most.Rows*10 >= 9*present {
		notes = append(notes, fmt.Sprintf("%.3g %% of the rows are %s: always predicting it has an error of %.3g %%.",
			100*float64(most.Rows)/float64(present), most.Text, 100*float64(present-most.Rows)/float64(present)))
	}
	if least := words[len(words)-1]; least.Rows < 10 {
		rows := "rows"
		if least.Rows == 1 {
			rows = "row"
		}
		notes = append(notes, fmt.Sprintf("The label %s has %d %s: too few to learn it or to measure its error.", least.Text, least.Rows, rows))
	}
	return notes
}

// Holdout is the part of the rows that measures a model that a draft trains.
const holdout = 0.2

// lines are those of a YAML file, some with a comment.
type lines []line

type line struct{ text, comment string }

func (l *lines) add(text, comment string) { *l = append(*l, line{text, comment}) }

// maxAligned is how far to the right comments are aligned.
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

// oneLine keeps a comment on its line, whatever the words of a column have in them.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Configuration returns the configuration. from is how the command was called.
func (d *Draft) Configuration(name, from string) string {
	var l lines
	l.add("", fmt.Sprintf("Written by `%s`: %s rows, %d columns.", from, humanize.Comma(int64(d.Table.Rows())), len(d.Roles)))
	l.add("", "`stagewise check -c FILE` shows what would run; docs/configuration.md describes all keys.")
	l.add("name: "+scalar(name), "prefix of the names of topics")
	l.add("", "")
	l.add("examples:", "")
	l.add("  train: ["+scalar(d.File)+"]", "")
	d.reading(&l)
	label := d.label()
	if label.Role == profile.Target {
		l.add("  targets: ["+scalar(string(d.key(label)))+"]", label.Why)
	} else {
		l.add("  label: "+scalar(string(d.key(label))), label.Why)
	}
	d.features(&l)
	l.add(fmt.Sprintf("  holdout: %v", holdout), "fraction of the rows held out from training to measure the error")
	l.add("", "")
	if d.texts() {
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
	if o.Format != "" {
		l.add("  format: "+scalar(o.Format), "")
	}
	if o.Delimiter != "" {
		l.add("  delimiter: "+scalar(o.Delimiter), "")
	}
	if o.Encoding != "" {
		l.add("  encoding: "+scalar(o.Encoding), "")
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
	if texts := d.of(profile.Text); len(texts) > 0 {
		l.add("  text: "+scalar(string(d.key(texts[0]))), texts[0].Why+": its words are counted")
		return
	}
	if dropped := d.with(profile.Role.IsDropped); len(dropped) > 0 {
		l.add("  columns:", "")
		l.add("    drop:", "excluded from the features")
		for _, a := range dropped {
			why := string(a.Role) + ": " + a.Why
			switch a.Role {
			case profile.Date:
				why += "; written as 2026-11-01T09:30:00 it can be listed under times"
			case profile.Unused:
				why = a.Why
			}
			l.add("      - "+scalar(string(d.key(a))), why)
		}
	}
	if words := d.of(profile.Category); len(words) > 0 {
		l.add("  categorical:", "columns of words")
		for _, a := range words {
			why := a.Why
			if list, _ := a.Words(); len(list) > tree.MaxWords {
				why += fmt.Sprintf("; trees tell %d of them apart", tree.MaxWords)
			}
			l.add("    - "+scalar(string(d.key(a))), why)
		}
	}
	if times := d.of(profile.Time); len(times) > 0 {
		l.add("  times:", "date and time columns, and the numeric features derived from them")
		for _, a := range times {
			l.add("    "+scalar(string(d.key(a)))+": "+list(a.Parts()), a.Why)
		}
	}
	if lacking := d.incomplete(); len(lacking) > 0 {
		var names []string
		for _, a := range lacking[:min(len(lacking), 3)] {
			names = append(names, string(d.key(a)))
		}
		if more := len(lacking) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		l.add("  missing: mean", "cells without a value are allowed; trees distinguish them: "+strings.Join(names, ", "))
	}
}

var plain = regexp.MustCompile(`^(\.{0,2}/)*[A-Za-z_]([A-Za-z0-9_./ -]*[A-Za-z0-9_.])?$|^(0|[1-9][0-9]*)$`)

// reserved are words that YAML reads as something else than text.
var reserved = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null|nan|inf)$`)

// scalar writes a text as YAML: plain if nobody can take it for anything else. A number of a column is a number.
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
