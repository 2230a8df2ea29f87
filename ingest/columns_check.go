package ingest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// checkServed finds invalid columns of served predictions.
func (o Options) checkServed() (problems []option.Problem) {
	label, version := o.Served.Label, o.Served.Version
	wrong := func(key string, column layout.Column, want string) {
		problems = append(problems, option.Problem{Key: key, Value: cmp.Or(string(column), "not set"), Want: want})
	}
	switch {
	case label == "" && version == "":
	case o.FromTopic == "":
		wrong("served", cmp.Or(label, version), "examples.from_topic too: served predictions are read from the messages of a topic")
	case label == "":
		wrong("served.label", label, "the path of the label that was served, such as prediction.label, with examples.served.version")
	case version == "":
		wrong("served.version", version, "the path of the version that served, with examples.served.label")
	case len(o.Targets) > 0 || o.Several():
		wrong("served", label, "no value with several labels or examples.targets: it needs one label per row")
	case version == label || slices.ContainsFunc([]layout.Column{o.Weight, o.Text, o.Label}, func(c layout.Column) bool {
		return c == label || c == version
	}):
		wrong("served", label, "columns of their own")
	}
	return problems
}

// checkColumns finds columns that are invalid for files of these formats.
func (o Options) checkColumns(formats []format.Format) (problems []option.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, option.Problem{Key: key, Value: value, Want: want})
	}
	negative := func(key string, c layout.Column) {
		if n, isNumber := c.Number(); isNumber && n < 0 {
			wrong(key, string(c), "a column's number, from 0, or its name")
		}
	}
	isLabel := func(c layout.Column) bool {
		isDefault := func(f format.Format) bool { return c == f.Label }
		return c != "" && len(o.Targets) == 0 && len(o.LabelColumns) == 0 && (c == o.Label || o.Label == "" &&
			slices.ContainsFunc(formats, isDefault))
	}
	negative("label", o.Label)
	negative("weight", o.Weight)
	if isLabel(o.Weight) {
		wrong("weight", string(o.Weight), "another column than the label's")
	}
	problems = append(problems, o.checkServed()...)
	use := map[string]bool{}
	for _, list := range []struct {
		key     string
		columns []string
	}{{"columns.use", o.Columns.Use}, {"columns.drop", o.Columns.Drop}, {"categorical", o.Categorical}, {"times", o.Times.Columns()}} {
		known := map[string]bool{}
		for _, c := range list.columns {
			negative(list.key, layout.Column(c))
			switch {
			case c == "" || known[c]:
				wrong(list.key, strconv.Quote(c), "different columns, each by its number, from 0, or by its name")
			case isLabel(layout.Column(c)) || layout.Column(c) == o.Weight:
				wrong(list.key, c, "other columns than those of the label and the weight")
			case list.key == "columns.drop" && use[c]:
				wrong(list.key, c, "other columns than those in columns.use")
			}
			if known[c] = true; list.key == "columns.use" {
				use[c] = true
			}
		}
	}
	feature := func(key, c string) bool {
		switch {
		case slices.Contains(o.Columns.Drop, c):
			wrong(key, c, "columns that become features, unlike "+value.Quote(c)+": remove it from "+o.Key("columns.drop")+", or from here")
		case len(use) > 0 && !use[c]:
			wrong(key, c, "columns that become features: list "+value.Quote(c)+" under "+o.Key("columns.use")+" too")
		default:
			return true
		}
		return false
	}
	for _, c := range o.Categorical {
		feature("categorical", c)
	}
	for _, c := range o.Times.Columns() {
		switch of := o.Times[c]; {
		case !feature("times", c):
		case slices.Contains(o.Categorical, c):
			wrong("times", c, "other columns than those in categorical")
		case !layout.CheckParts(of.Parts):
			wrong("times", fmt.Sprint(of.Parts), "different parts of "+option.Enumerate(value.TimeParts(), "and"))
		case of.Unit != "" && of.Unit != value.UnitAuto && !of.Unit.Known():
			wrong("times", value.Quote(string(of.Unit)), "a unit: auto, s, ms, us, ns, days, excel or yyyymmdd")
		}
	}
	readsHeader := slices.ContainsFunc(formats, func(f format.Format) bool { return slices.Contains(f.Keys, "header") })
	if readsHeader && o.Header != nil && !*o.Header && slices.ContainsFunc(o.NamedColumns(), layout.Column.IsName) {
		wrong("header", "false", "true, because a column is given by its name")
	}
	return problems
}
