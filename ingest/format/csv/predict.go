package csv

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// openCSVFeatures is openFeatureRows. In a file with one column, blank rows before the first row count, unless that is a
// header.
func openCSVFeatures(c *input.Content, o layout.Options, want layout.Features) (format.Reader, error) {
	r, err := openFeatureRows(c, o, want)
	if err != nil {
		return nil, err
	}
	if len(r.Cells) == 1 && r.pending && r.blank.begin(r.record) {
		r.pending = false
	}
	return r, nil
}

// openFeatureRows reads rows without labels and weights. A file with a header may have the model's columns in any order;
// without one, they must be in the order of training.
func openFeatureRows(c *input.Content, o layout.Options, want layout.Features) (*csvReader, error) {
	first, _ := input.FirstRows(c) // newCSVReader returns the error
	first = bytes.Clone(first)
	r, err := newCSVReader(c, o)
	if err != nil {
		return nil, err
	}
	if o.Text != "" || o.Mixed() {
		if err := r.checkTextModel(want); err != nil {
			return nil, err
		}
		if o.Mixed() {
			return r, r.layMixed(want)
		}
		return r, r.layText(want, first)
	}
	header, err := r.findHeader(want)
	if err != nil {
		return nil, err
	}
	if header {
		if err := r.parseHeader(); err != nil {
			return nil, err
		}
	}
	if header && want.Columns != nil {
		return r, r.LayByName(want.Columns, " (if the first row is an example: --header=false)")
	}
	return r, r.LayByPlace(want)
}

// checkTextModel returns a *input.Error if the model was not trained on counts of words.
func (r *csvReader) checkTextModel(want layout.Features) error {
	if want.Sparse {
		return nil
	}
	return input.WholeFile(r.Name, fmt.Errorf("texts: the model was trained on rows of %d features", want.Width))
}

// layText finds the text column of rows to predict: the only one, or the one with the name or number used in training. In
// a file without a header, only the label may be omitted. first are the first rows of the file.
func (r *csvReader) layText(want layout.Features, first []byte) error {
	header := r.Options.Header != nil && *r.Options.Header
	if r.Options.Header == nil && r.Options.Text.IsName() {
		header = slices.ContainsFunc(r.record, func(field string) bool { return strings.TrimSpace(field) == string(r.Options.Text) })
	}
	if header {
		if err := r.parseHeader(); err != nil {
			return err
		}
	}
	if !header && r.Options.Header == nil && r.Options.Text.IsName() && r.mayBeHeader(first) {
		return r.fail(-1, fmt.Errorf("%s may be a header or a text: set --header or --header=false, or call the column %s",
			value.Quote(strings.TrimSpace(r.record[0])), value.Quote(string(r.Options.Text))))
	}
	r.IgnoreAll()
	at := 0
	if len(r.Cells) > 1 {
		if !header && r.Options.Text.IsName() {
			return r.noHeader([]string{string(r.Options.Text)})
		}
		var err error
		if at, err = r.Column(r.Options.Text); err != nil {
			return err
		}
	}
	r.Text, r.Cells[at].Role = at, layout.Counted
	if len(r.Cells) > 1 && !header {
		r.doubt = r.fieldsOf(want)
	}
	return nil
}

// fieldsOf returns a function that returns the reason why a row without names may be one text that contains the delimiter,
// rather than the columns of the training files: its other columns have no labels of the model, or no numbers.
func (r *csvReader) fieldsOf(want layout.Features) func(record []string) error {
	labels := map[string]bool{}
	for _, label := range want.Labels {
		labels[label], labels[r.LabelOf(label)] = true, true
	}
	inDoubt := func(field, what string) error {
		return r.fail(-1, fmt.Errorf("%s is %s, so this may be a text that contains %q, not the columns of the training "+
			"files: put texts into double quotes, add a header and --header, or keep only the texts",
			value.Quote(strings.TrimSpace(field)), what, string(r.parser.Comma)))
	}
	isLabel := func(field string) bool { return r.NoLabels.Has(field) || labels[r.LabelOf(field)] }
	isNumber := func(field string) bool {
		_, err := value.Number(field)
		return err == nil || r.IsMissing(field)
	}
	columns := []layout.Column{cmp.Or(r.Options.Label, Label)}
	if others := slices.Concat(r.Options.Targets, r.Options.LabelColumns); len(others) > 0 {
		columns, isLabel = nil, isNumber
		for _, name := range others {
			columns = append(columns, layout.Column(name))
		}
	}
	return func(record []string) error {
		for _, c := range columns {
			at, isNumber := c.Number()
			if !isNumber || at >= len(record) || at == r.Text {
				return inDoubt(record[0], "before the text, where the label is not")
			}
			fields := []string{record[at]}
			if r.Options.Several() && len(r.Options.LabelColumns) == 0 {
				fields = strings.FieldsFunc(record[at], func(c rune) bool { return strings.ContainsRune(cmp.Or(r.Options.LabelSeparator, ",;|"), c) })
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
func (r *csvReader) findHeader(want layout.Features) (bool, error) {
	if r.Options.Header != nil {
		return *r.Options.Header, nil
	}
	row := make([]string, len(r.record))
	for i, field := range r.record {
		row[i] = strings.TrimSpace(field)
	}
	named := 0
	for _, column := range want.Columns {
		if slices.Contains(row, column.Source()) {
			named++
		}
	}
	numbers := !slices.ContainsFunc(row, func(field string) bool {
		_, err := value.Single(field)
		return err != nil && !r.IsMissing(field)
	})
	switch {
	case want.Columns == nil && !hasHeader(r.Options):
		return false, nil // as in the training files
	case numbers && named == 0 && want.Columns != nil:
		return false, nil
	case !numbers && (named > 0 || want.Columns == nil):
		return true, nil // layByName reports missing names
	}
	return false, r.fail(-1, errors.New("the first row may be a header or an example: set --header or --header=false"))
}

// layMixed assigns the roles of columns of mixed rows. The first row is a header if it has all column names of the
// options.
func (r *csvReader) layMixed(want layout.Features) error {
	header := r.Options.Header != nil && *r.Options.Header
	if r.Options.Header == nil && hasHeader(r.Options) {
		var named, lacking []string
		for _, c := range append(slices.Clone(r.Options.Categorical), string(r.Options.Text)) {
			switch {
			case !layout.Column(c).IsName():
			case slices.ContainsFunc(r.record, func(field string) bool { return strings.TrimSpace(field) == c }):
				named = append(named, c)
			default:
				lacking = append(lacking, c)
			}
		}
		if len(named) == 0 && len(lacking) > 0 {
			return r.noHeader(lacking)
		}
		header = true // its error includes the missing names
	}
	if header {
		if err := r.parseHeader(); err != nil {
			return err
		}
	}
	return r.LayMixed(want)
}

// noHeader returns the error of a file whose first row has none of the column names of the model.
func (r *csvReader) noHeader(names []string) error {
	return r.fail(-1, fmt.Errorf("the first row does not name the columns that the model needs: expected a header with %s",
		layout.SomeNames(names)))
}

// mayBeHeader reports whether the first row of a file with one column looks like a name, and the second one does not.
func (r *csvReader) mayBeHeader(first []byte) bool {
	if len(r.record) != 1 || !isName.MatchString(strings.TrimSpace(r.record[0])) {
		return false
	}
	parser := newParser(bytes.NewReader(first), r.parser.Comma)
	parser.ReuseRecord = false
	_, err := parser.Read()
	second, again := parser.Read()
	return err == nil && again == nil && len(second) == 1 && !isName.MatchString(strings.TrimSpace(second[0]))
}

// isName matches typical column names.
var isName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
