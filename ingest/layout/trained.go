package layout

import (
	"github.com/stagewise/stagewise/ingest/vocabulary"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// TrainedAs returns the options that read rows to predict as a run read those that it was trained on.
func TrainedAs(plan *schemas.Plan) Options {
	o, input := Defaults(), plan.Input
	o.Label, o.Weight, o.Header, o.Encoding = Column(input.Label), Column(input.Weight), input.Header, input.Encoding
	o.Delimiter, o.Columns.Use, o.Columns.Drop, o.Categorical = input.Delimiter, input.Use, input.Drop, input.Categorical
	o.Times = input.Times
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
		o.extent = Extent{First: *input.FirstIndex, Width: 1} // who reads rows knows how many there are
	}
	o.Missing, o.Targets = plan.Missing, plan.Targets
	if o.LabelColumns = input.LabelColumns; plan.Task() == examples.SeveralLabels {
		o.Labels = LabelsSeveral
	}
	return o
}
