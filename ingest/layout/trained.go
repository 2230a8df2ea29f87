package layout

import (
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// TrainedAs returns the options for reading rows to predict in the way that a run read its training rows.
func TrainedAs(plan *schemas.Plan) Options {
	o, input := Defaults(), plan.Input
	o.Label, o.Weight, o.Header, o.Encoding = Column(input.Label), Column(input.Weight), input.Header, input.Encoding
	o.Delimiter, o.Columns.Use, o.Columns.Drop, o.Categorical = input.Delimiter, input.Use, input.Drop, input.Categorical
	o.Times = PartsOfTimes(input.Times)
	if input.MissingValues != nil {
		o.MissingValues = input.MissingValues
	}
	if input.Text != "" {
		o.Text = Column(input.Text)
		o.Words = vocabulary.Options{Columns: input.WordColumns, Phrases: input.WordPhrases}.Counting(input.Vocabulary)
	}
	if input.Hash != nil {
		o.hash = Hash{Columns: HashColumns(input.Hash.Columns), Cross: input.Hash.Cross}
	}
	if input.FirstIndex != nil {
		o.extent = Extent{First: *input.FirstIndex, Width: 1} // the reader of the rows knows the width
	}
	o.Missing.Mode, o.Targets = plan.Missing, plan.Targets
	if o.LabelColumns = input.LabelColumns; plan.Task() == examples.SeveralLabels {
		o.Labels = LabelsSeveral
	}
	return o
}
