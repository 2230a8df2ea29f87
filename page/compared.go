package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Compared is a run to compare.
type Compared struct {
	Title string // how the reader knows it, such as "wide version 3"
	State string // done, failed, running, …
	Date  string // when it was submitted; "": the page has one date for all runs
	// Settings are the keys in which the runs of a search differ. Without any, the plans are compared.
	Settings []Setting
	Plan     *schemas.Plan
	// Report has the results. nil means that the run has made no version, or that an earlier release made it.
	Report *schemas.Report
	// Galleries are pictures of filters and mistakes of a run on images.
	Galleries []Gallery
	// Bars are tables of the importance of columns and of errors by slices, of a run on a table.
	Bars []Table
}

// Setting is a key of the configuration and its value.
type Setting struct{ Key, Value string }

// Row is a row of a table: a name, and a value for each run, or None.
type Row struct {
	Name   string
	Values []string

	split, measure string // whose name the row has; "": another
}

// None stands for a value that a run does not have.
const None = "-"

// same reports whether all runs have the same value.
func (r Row) same() bool {
	return !slices.ContainsFunc(r.Values, func(v string) bool { return v != r.Values[0] })
}

// Differences returns the fields in which the plans of runs differ, by their keys in JSON, in alphabetical order, but stages by their
// numbers. If in each run all stages have the same value of a field, the field is one row, such as stages.*.ridge. Fields that only
// identify a submission are omitted.
func Differences(runs []Compared) []Row {
	return slices.DeleteFunc(fields(runs), Row.same)
}

// Fields returns the fields of the plan of a run, as [Differences] has them.
func Fields(r Compared) []Row { return fields([]Compared{r}) }

// field is the key of a field of plans. Fields are in alphabetical order, but stages by their numbers.
type field struct {
	name  string
	stage int    // its number; −1: all stages
	below string // the key below it; "": the field is of no stage
}

// ofStages is the name of the fields of stages.
const ofStages = "stages."

func (f field) compare(other field) int {
	return cmp.Or(strings.Compare(f.name, other.name), f.stage-other.stage, strings.Compare(f.below, other.below))
}

func (f field) String() string {
	if f.below == "" {
		return f.name
	}
	return f.name + strings.Replace(strconv.Itoa(f.stage), "-1", "*", 1) + "." + f.below
}

// fields returns the fields of the plans of runs.
func fields(runs []Compared) (rows []Row) {
	plans, apart := make([]map[field]string, len(runs)), map[string]bool{} // fields that have other values in another stage of their plan
	for i, r := range runs {
		plans[i] = fieldsOf(r.Plan)
		values := map[string]string{}
		for key, value := range plans[i] {
			before, any := values[key.below]
			apart[key.below] = apart[key.below] || any && before != value
			values[key.below] = value
		}
	}
	all := map[field][]string{}
	for i, of := range plans {
		for key, value := range of {
			if key.below != "" && !apart[key.below] {
				key.stage = -1
			}
			if all[key] == nil {
				all[key] = slices.Repeat([]string{None}, len(runs))
			}
			all[key][i] = value
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(all), field.compare) {
		rows = append(rows, Row{Name: key.String(), Values: all[key]})
	}
	return rows
}

// fieldsOf returns the values of a plan by their keys.
func fieldsOf(plan *schemas.Plan) map[field]string {
	if plan == nil {
		return nil
	}
	var root map[string]any
	decoder := json.NewDecoder(bytes.NewReader(wire.JSON(plan)))
	decoder.UseNumber()
	_ = decoder.Decode(&root) // a plan came from JSON
	fields := map[field]string{{name: "stages"}: strconv.Itoa(len(plan.Stages))}
	list, _ := root["stages"].([]any)
	for n, stage := range list {
		flatten("", stage, func(key, value string) { fields[field{ofStages, n, key}] = value })
	}
	for _, key := range []string{"stages", "submission", "since", "trigger", "spans", "sources", "expiring", "outside", "forgotten"} {
		delete(root, key)
	}
	flatten("", root, func(key, value string) { fields[field{name: key}] = value })
	texts := map[string][]string{}
	for key, list := range map[string]coverage.Spans{"spans": plan.Spans, "expiring": plan.Expiring, "outside": plan.Outside} {
		for _, s := range list {
			texts[key] = append(texts[key], s.String())
		}
	}
	for i := range plan.Sources {
		texts["sources"] = append(texts["sources"], wire.Digest(plan.Sources[i].ID).Short())
	}
	for key, list := range texts {
		fields[field{name: key}] = strings.Join(list, " ")
	}
	if len(plan.Forgotten) > 0 {
		fields[field{name: "forgotten"}] = wire.DigestJSON(plan.Forgotten).Short()
	}
	return fields
}

// flatten calls add with the values below a key. A list of plain values is one value.
func flatten(key string, value any, add func(key, value string)) {
	below := func(name string, of any) { flatten(strings.TrimPrefix(key+"."+name, "."), of, add) }
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for name, of := range value {
			below(name, of)
		}
	case []any:
		var plain []any
		for i, of := range value {
			switch of.(type) {
			case map[string]any, []any:
				below(strconv.Itoa(i), of)
			default:
				plain = append(plain, of)
			}
		}
		if len(plain) == len(value) {
			add(key, strings.Trim(fmt.Sprint(plain), "[]"))
		}
	default:
		add(key, fmt.Sprint(value))
	}
}

// measure is a field of a [schemas.SplitReport] by its key, as a table has it.
type measure struct {
	key, name string
	format    func(float64) string
}

// measures returns the measures of splits, in groups: a table has all splits of a group before the next one.
func measures() [][]measure {
	return [][]measure{
		{{"rows", "rows", nil}},
		{{"error", "error", percent}},
		{
			{"decided.threshold", "threshold", number}, {"decided.error", "error at the threshold", percent},
			{"decided.balanced_error", "balanced error there", percent}, {"decided.precision", "precision there", number},
			{"decided.recall", "recall there", number}, {"decided.f1", "F1 there", number},
			{"decided.confusion", "rows by class and decision", nil}, {"balanced_error", "balanced error", percent},
			{"majority_error", "error of the commonest class", percent},
		},
		{
			{"loss", "loss", number}, {"log_loss", "log loss", number}, {"ece", "calibration error", number}, {"auc", "AUC", number},
			{"average_precision", "average precision", number}, {"rmse", "RMSE", number}, {"mae", "MAE", number}, {"r2", "R²", number},
		},
	}
}

// text returns the measure of the rows of a split; "" if it is unknown.
func (m measure) text(s schemas.SplitReport) string {
	if s.Decided == nil && strings.HasPrefix(m.key, "decided.") {
		return ""
	}
	switch v := option.Field(reflect.ValueOf(s), m.key).Interface().(type) {
	case int64:
		return humanize.Comma(v)
	case float64:
		return m.format(v)
	case *float64:
		if v != nil {
			return m.format(*v)
		}
	case statistics.Decision:
		return fmt.Sprintf("%.6g %.6g, %.6g %.6g", v[0][0], v[0][1], v[1][0], v[1][1])
	}
	return ""
}

// Measures returns the results of runs: rows, errors and losses of the splits, seconds, and the digests of the weights.
// A row in which no run has a value is left out.
func Measures(runs []Compared) []Row {
	rows := []Row{{Name: "state"}}
	for _, r := range runs {
		rows[0].Values = append(rows[0].Values, r.State)
	}
	add := func(row Row, text func(*schemas.Report) string) {
		any := false
		for _, r := range runs {
			value := ""
			if r.Report != nil {
				value = text(r.Report)
			}
			any = any || value != ""
			row.Values = append(row.Values, cmp.Or(value, None))
		}
		if any {
			rows = append(rows, row)
		}
	}
	for _, group := range measures() {
		for n := range examples.Splits {
			split := examples.Split(n).String()
			for _, m := range group {
				add(Row{Name: split + " " + m.name, split: split, measure: m.name}, func(r *schemas.Report) string {
					if s, ok := r.Splits[split]; ok {
						return m.text(s)
					}
					return ""
				})
			}
		}
	}
	add(Row{Name: "passes"}, func(r *schemas.Report) string {
		passes := 0
		for i := range r.Stages {
			passes += r.Stages[i].Passes
		}
		return strconv.Itoa(passes)
	})
	add(Row{Name: "temperature"}, func(r *schemas.Report) string {
		if r.Temperature == 0 {
			return ""
		}
		return number(r.Temperature)
	})
	add(Row{Name: "seconds"}, func(r *schemas.Report) string { return fmt.Sprintf("%.2f", r.Seconds) })
	add(Row{Name: "weights digest"}, func(r *schemas.Report) string { return r.WeightsDigest.Short() })
	return rows
}

// number formats a loss.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Order sorts runs by a measure of the rows of a split.
type Order struct {
	Split string // "": the first of holdout, test and train rows that a run has
	By    string // one of [Orders]; "": the first
}

// orders are the measures that runs may be sorted by, with their names in tables. With the sign −1, the greatest is the best. Numbers have
// no log loss: they are sorted by the loss of the last stage.
var orders = []struct {
	name, words string
	sign        float64
	of          func(s schemas.SplitReport) *float64 // nil: the rows have none
}{
	{"error", "error", 1, func(s schemas.SplitReport) *float64 { return &s.Error }},
	{"loss", "log loss", 1, func(s schemas.SplitReport) *float64 { return cmp.Or(s.LogLoss, &s.Loss) }},
	{"auc", "AUC", -1, func(s schemas.SplitReport) *float64 { return s.AUC }},
	{"average_precision", "average precision", -1, func(s schemas.SplitReport) *float64 { return s.AveragePrecision }},
	{"balanced_error", "balanced error", 1, func(s schemas.SplitReport) *float64 { return s.BalancedError }},
}

// Orders returns the measures that runs may be sorted by: error, loss, and those that only single-label rows have.
func Orders() (names []string) {
	for _, o := range orders {
		names = append(names, o.name)
	}
	return names
}

// OfEveryTask reports whether predictions of every task have a measure.
func OfEveryTask(by string) bool { return by == orders[0].name || by == orders[1].name }

// at returns the index of the order's measure in orders.
func (o Order) at() int { return max(slices.Index(Orders(), o.By), 0) }

// Measure returns the name of the order's measure in tables.
func (o Order) Measure() string { return orders[o.at()].words }

// valueOf returns a measure of a run's rows; nil if it has none.
func valueOf(at int, r *schemas.Report, split string) *float64 {
	if r == nil || r.Splits[split].Rows == 0 {
		return nil
	}
	return orders[at].of(r.Splits[split])
}

// Text returns the measure of a report's rows, of the order's split, or None.
func (o Order) Text(r *schemas.Report) string {
	if v := valueOf(o.at(), r, o.Split); v != nil {
		return number(*v)
	}
	return None
}

// Words describes an order.
func (o Order) Words(runs []Compared) string {
	return o.Measure() + " of the " + o.split(runs) + " rows"
}

// split returns the split of an order, given the runs.
func (o Order) split(runs []Compared) string {
	if o.Split != "" {
		return o.Split
	}
	for _, split := range []examples.Split{examples.Holdout, examples.Test} {
		for _, r := range runs {
			if r.Report != nil && r.Report.Splits[split.String()].Rows > 0 {
				return split.String()
			}
		}
	}
	return examples.Train.String()
}

// Ranks returns the indices of runs, the best first, and the number of runs that have the measure: the others are last. Runs with the same
// measure are sorted by the log loss, and then by the error.
func (o Order) Ranks(runs []Compared) (ranks []int, ranked int) {
	split := o.split(runs)
	keys := make([][3]float64, len(runs))
	for i, r := range runs {
		ranks = append(ranks, i)
		for k, at := range []int{o.at(), 1, 0} {
			keys[i][k] = math.Inf(1)
			if v := valueOf(at, r.Report, split); v != nil {
				keys[i][k] = orders[at].sign * *v
			}
		}
		if !math.IsInf(keys[i][0], 1) {
			ranked++
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return slices.Compare(keys[a][:], keys[b][:]) })
	return ranks, ranked
}

// Best returns the index of the run with the best predictions, the first of several; −1 if no run has predictions.
func (o Order) Best(runs []Compared) int {
	if ranks, ranked := o.Ranks(runs); ranked > 0 {
		return ranks[0]
	}
	return -1
}

// Sorted returns runs by their ranks.
func (o Order) Sorted(runs []Compared) (sorted []Compared) {
	ranks, _ := o.Ranks(runs)
	for _, i := range ranks {
		sorted = append(sorted, runs[i])
	}
	return sorted
}

//go:embed compared.html
var pageText string

// script has the functions plot and legend, and the functions that they use: h and g make elements of HTML and SVG, count and short write
// numbers, and ticks are round values of an axis. Pages give classes to what is drawn: series and dots for lines and points, with the kind
// of each series, grid, diagonal, small and legend.
//
//go:embed browser/chart.js
var script string

// About describes a page.
type About struct {
	Title    string // what was done, such as "Runs compared"
	Pipeline string // or several
	Date     string // when it was made; "": the runs have their own
	Text     string // a paragraph; "": none
	By       Order  // the sort key of the runs, best first
}

// Table is a table of texts on a page.
type Table struct {
	Title   string // a heading above it; "": none
	Caption string
	Head    []string
	Rows    []Bar
	Wrong   bool // the bars show what is wrong
}

// Bar is a row of a table, which may end in a bar.
type Bar struct {
	Cells  []string // the first is what the row is about
	Length float64  // of the bar: 0 to 1, which the longest one has
}

// Percent returns the length of the bar.
func (b Bar) Percent() int { return int(math.Round(100 * min(max(b.Length, 0), 1))) }

// Barred reports whether a row has a bar.
func (t Table) Barred() bool {
	return slices.ContainsFunc(t.Rows, func(b Bar) bool { return b.Length > 0 })
}

// Gallery is pictures with a title, such as the filters of a stage.
type Gallery struct {
	Title    string
	Pictures []Picture
}

// Picture is an image of pixel values: an example, or a filter.
type Picture struct {
	Caption string // text below it; "": none
	Shape   examples.Image
	Values  []float32 // one for each value of the shape
}

// sheet has the values of the template. Its script draws diagrams, confusion matrices and pictures from Drawn.
type sheet struct {
	About
	Runs      []Compared
	Results   []runTable // of several runs: settings and the measures that decide, and the other measures
	Tables    []Table
	Galleries []Gallery
	Script    template.JS
	Drawn     struct {
		Runs     []drawnRun
		Pictures [][]drawnPicture // of each gallery
	}
}

// mostClasses is the maximum number of classes of a readable confusion matrix.
const mostClasses = 50

// drawnRun is a run that the script draws.
type drawnRun struct {
	Title string
	*schemas.Report
}

// drawnPicture has the levels of red, green and blue of each pixel.
type drawnPicture struct {
	Caption       string
	Width, Height int
	Levels        []byte
}

// runTable has a row for each run, and a column for each field in which runs differ.
type runTable struct {
	Caption string
	Columns []Row // with the values of the runs
	Plan    int   // number of columns, the first ones, that are settings
	Best    int   // index of the best run; −1: none
	Runs    []Compared
	Same    []string // measures that all runs have the same value of, with the value
}

// Differs reports whether a run has another setting than the best.
func (t runTable) Differs(column, run int) bool {
	return column < t.Plan && t.Best >= 0 && t.Columns[column].Values[run] != t.Columns[column].Values[t.Best]
}

// WritePage writes a page about runs: one self-contained file of HTML.
func WritePage(w io.Writer, about About, runs []Compared) error {
	runs = about.By.Sorted(runs)
	p := sheet{About: about, Runs: runs}
	if len(runs) == 1 {
		measures := Table{Caption: "How the run went", Head: []string{"measure", "value"}}
		for _, row := range Measures(runs) {
			measures.Rows = append(measures.Rows, Bar{Cells: append([]string{row.Name}, row.Values...)})
		}
		p.Tables = []Table{measures}
		p.Date = strings.Trim(p.Date+", "+runs[0].Date, ", ")
	} else {
		first, more := tablesOf(runs, about.By)
		p.Results = []runTable{first, more}
	}
	for _, r := range runs {
		of := ""
		if len(runs) > 1 {
			of = ": " + r.Title
		}
		if r.Report != nil {
			drawn := *r.Report
			drawn.Splits = maps.Clone(drawn.Splits)
			for name, s := range drawn.Splits {
				if len(s.Confusion) > mostClasses {
					s.Confusion = nil
					drawn.Splits[name] = s
				}
			}
			r.Report = &drawn
		}
		p.Drawn.Runs = append(p.Drawn.Runs, drawnRun{r.Title, r.Report})
		for _, t := range r.Bars {
			if t.Title != "" {
				t.Title += of
			}
			p.Tables = append(p.Tables, t)
		}
		for _, g := range r.Galleries {
			var pictures []drawnPicture
			for _, picture := range g.Pictures {
				pictures = append(pictures, picture.drawn())
			}
			g.Title += of
			p.Galleries, p.Drawn.Pictures = append(p.Galleries, g), append(p.Drawn.Pictures, pictures)
		}
	}
	return p.write(w)
}

// WriteTables writes a page of tables.
func WriteTables(w io.Writer, about About, tables []Table) error {
	p := sheet{About: about, Tables: tables}
	return p.write(w)
}

// write writes the page.
func (p *sheet) write(w io.Writer) error {
	p.Script = template.JS(script)
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"breaks": strings.NewReplacer(".", ".\u200b", "_", "_\u200b").Replace, // a line may break after a dot or an underscore of a key
		"colour": func(run int) int { return min(run, 8) },                    // the others share one
	}).Parse(pageText)).Execute(w, p)
}

// drawn returns the picture with the least value in black and the highest one in white. It has colours if the shape has
// three channels; of another number of channels it shows the first. A missing value is black.
func (p Picture) drawn() drawnPicture {
	least, most := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range p.Values {
		if v == v {
			least, most = min(least, v), max(most, v)
		}
	}
	d := drawnPicture{Caption: p.Caption, Width: p.Shape.Width(), Height: p.Shape.Height()}
	for at := 0; at < len(p.Values); at += p.Shape.Channels() {
		for c := range 3 {
			if p.Shape.Channels() != 3 {
				c = 0
			}
			level := byte(0)
			if v := p.Values[at+c]; v == v && most > least {
				level = byte(255 * (float64(v) - float64(least)) / (float64(most) - float64(least)))
			}
			d.Levels = append(d.Levels, level)
		}
	}
	return d
}

// tablesOf returns the tables of runs, which are in their order: of their settings and the measures that decide, and of the
// other measures.
func tablesOf(runs []Compared, by Order) (first, more runTable) {
	best, settings := by.Best(runs), settings(runs)
	first = runTable{Caption: "Runs by " + by.Words(runs) + ", best first. In color: settings that differ from the best run",
		Runs: runs, Best: best, Columns: settings, Plan: len(settings)}
	more = runTable{Caption: "Other measures", Runs: runs, Best: best}
	measures := Measures(runs)
	for i, row := range measures {
		repeated := slices.ContainsFunc(measures[:i], func(before Row) bool { // as a loss that is the log loss
			return row.split != "" && before.split == row.split && slices.Equal(before.Values, row.Values)
		})
		switch {
		case repeated, row.Name == "weights digest": // each run has its own
		case row.same():
			first.Same = append(first.Same, row.Name+" "+row.Values[0])
		case decides(row, measures) || row.measure == by.Measure():
			first.Columns = append(first.Columns, row)
		default:
			more.Columns = append(more.Columns, row)
		}
	}
	return first, more
}

// decides reports whether a measure is shown first, because users choose a run by it.
func decides(r Row, all []Row) bool {
	train := examples.Train.String()
	switch r.measure {
	case "":
		return r.Name == "state" || r.Name == "seconds"
	case "error":
		return true
	case "loss", "AUC", "RMSE", "R²":
		return r.split != train || !slices.ContainsFunc(all, func(r Row) bool { return r.measure == "error" && r.split != train })
	}
	return false
}

// settings returns the settings in which the runs differ, or else the fields of their plans.
func settings(runs []Compared) (rows []Row) {
	for i, r := range runs {
		for _, s := range r.Settings {
			at := slices.IndexFunc(rows, func(row Row) bool { return row.Name == s.Key })
			if at < 0 {
				at, rows = len(rows), append(rows, Row{Name: s.Key, Values: slices.Repeat([]string{None}, len(runs))})
			}
			rows[at].Values[i] = s.Value
		}
	}
	if len(rows) == 0 {
		return Differences(runs)
	}
	return rows
}
