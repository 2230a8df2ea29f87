package draft

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/profile"
	"github.com/stagewise/stagewise/internal/tree"
)

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
