package draft

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/profile"
)

// Draft is a configuration to be, and what it follows from.
type Draft struct {
	File    string // as the configuration names it
	Options ingest.Options
	Table   *profile.Table
	Roles   []profile.Assigned
}

// Of returns the draft for a table in a file. The options say how it was read, and which column is the label. The configuration, which is
// to be written to output, names the file relative to its own folder.
func Of(file, output string, o ingest.Options, t *profile.Table) (*Draft, error) {
	roles, err := t.Roles(o.Label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	d := &Draft{File: file, Options: o, Table: t, Roles: roles}
	if !filepath.IsAbs(file) && output != screen.StandardOutput {
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

// Name returns the name of a pipeline for a file, or a folder.
func Name(file string) string {
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
