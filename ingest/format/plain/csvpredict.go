package plain

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// headerToPredict reports whether the first row of a file without labels and weights is a header. first are the first rows.
func (s *csvSource) headerToPredict(want layout.Features, first []byte) (bool, error) {
	o := s.options
	switch {
	case o.Mixed():
		return s.findNames()
	case o.Text != "":
		return s.findText(want, first)
	case o.Header != nil:
		return *o.Header, nil
	}
	return s.findHeader(want)
}

// has reports whether the first row names a column.
func (s *csvSource) has(name string) bool {
	return slices.ContainsFunc(s.record, func(field string) bool { return strings.TrimSpace(field) == name })
}

// findText reports whether the first row of texts names their column. In a file without a header, only the label may be
// omitted.
func (s *csvSource) findText(want layout.Features, first []byte) (header bool, err error) {
	o := s.options
	if o.Header != nil {
		header = *o.Header
	} else if o.Text.IsName() {
		header = s.has(string(o.Text))
	}
	switch {
	case header:
		return true, nil
	case o.Header == nil && o.Text.IsName() && s.mayBeHeader(first):
		return false, s.fail(fmt.Errorf("%s may be a header or a text: set --header or --header=false, or call the column %s",
			value.Quote(strings.TrimSpace(s.record[0])), value.Quote(string(o.Text))))
	case s.width > 1 && o.Text.IsName():
		return false, s.noHeader([]string{string(o.Text)})
	case s.width > 1:
		s.doubt = s.fieldsOf(want)
	}
	return false, nil
}

// fieldsOf returns a function that returns the reason why a row without names may be one text that contains the delimiter,
// rather than the columns of the training files: its other columns have no labels of the model, or no numbers.
func (s *csvSource) fieldsOf(want layout.Features) func(record []string) error {
	text, _ := s.options.Text.Number()
	missing, noLabels := value.MissingOf(s.options.MissingValues), s.options.MissingLabels()
	labels := map[string]bool{}
	for _, label := range want.Labels {
		labels[label], labels[value.Label(label)] = true, true
	}
	inDoubt := func(field, what string) error {
		return s.fail(fmt.Errorf("%s is %s, so this may be a text that contains %q, not the columns of the training "+
			"files: put texts into double quotes, add a header and --header, or keep only the texts",
			value.Quote(strings.TrimSpace(field)), what, string(s.parser.Comma)))
	}
	isLabel := func(field string) bool { return noLabels.Has(field) || labels[value.Label(field)] }
	isNumber := func(field string) bool {
		_, err := value.Number(field)
		return err == nil || missing.Has(field)
	}
	columns := []layout.Column{cmp.Or(s.options.Label, csvLabel)}
	if others := slices.Concat(s.options.Targets, s.options.LabelColumns); len(others) > 0 {
		columns, isLabel = nil, isNumber
		for _, name := range others {
			columns = append(columns, layout.Column(name))
		}
	}
	return func(record []string) error {
		for _, c := range columns {
			at, isNumber := c.Number()
			if !isNumber || at >= len(record) || at == text {
				return inDoubt(record[0], "before the text, where the label is not")
			}
			fields := []string{record[at]}
			if s.options.Several() && len(s.options.LabelColumns) == 0 {
				fields = strings.FieldsFunc(record[at], func(c rune) bool { return strings.ContainsRune(cmp.Or(s.options.LabelSeparator, ",;|"), c) })
			}
			for _, field := range fields {
				if !isLabel(field) {
					return inDoubt(field, "no label of the model")
				}
			}
		}
		return nil
	}
}

// findHeader reports whether the first row is a header. If the options don't say, the row is inspected. A row is never
// skipped in doubt: there must be an output row for each input row.
func (s *csvSource) findHeader(want layout.Features) (bool, error) {
	missing := value.MissingOf(s.options.MissingValues)
	row := make([]string, len(s.record))
	for i, field := range s.record {
		row[i] = strings.TrimSpace(field)
	}
	named := 0
	for _, column := range want.Columns {
		if slices.Contains(row, column.Source()) {
			named++
		}
	}
	numbers := !slices.ContainsFunc(row, func(field string) bool {
		_, err := value.Number(field)
		return err != nil && !missing.Has(field)
	})
	switch {
	case want.Columns == nil && !hasHeader(s.options):
		return false, nil // as in the training files
	case numbers && named == 0 && want.Columns != nil:
		return false, nil
	case !numbers && (named > 0 || want.Columns == nil):
		return true, nil // layByName reports missing names
	}
	return false, s.fail(errors.New("the first row may be a header or an example: set --header or --header=false"))
}

// findNames reports whether the first row of mixed rows is a header: it has all column names of the options.
func (s *csvSource) findNames() (header bool, err error) {
	o := s.options
	if o.Header != nil {
		return *o.Header, nil
	}
	var named, lacking []string
	for _, c := range append(slices.Clone(o.Categorical), string(o.Text)) {
		switch {
		case !layout.Column(c).IsName():
		case s.has(c):
			named = append(named, c)
		default:
			lacking = append(lacking, c)
		}
	}
	if hasHeader(o) && len(named) == 0 && len(lacking) > 0 {
		return false, s.noHeader(lacking)
	}
	return hasHeader(o), nil // the error of lacking names comes later
}

// noHeader returns the error of a file whose first row has none of the column names of the model.
func (s *csvSource) noHeader(names []string) error {
	return s.fail(fmt.Errorf("the first row does not name the columns that the model needs: expected a header with %s",
		layout.SomeNames(names)))
}

// mayBeHeader reports whether the first row of a file with one column looks like a name, and the second one does not.
func (s *csvSource) mayBeHeader(first []byte) bool {
	if len(s.record) != 1 || !isName.MatchString(strings.TrimSpace(s.record[0])) {
		return false
	}
	parser := newParser(bytes.NewReader(first), s.parser.Comma)
	parser.ReuseRecord = false
	_, err := parser.Read()
	second, again := parser.Read()
	return err == nil && again == nil && len(second) == 1 && !isName.MatchString(strings.TrimSpace(second[0]))
}

// isName matches typical column names.
var isName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
