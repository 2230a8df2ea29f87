package schemas

// Layout documents one kind of message. FORMAT.md's tables are made of these, and
// its goldens are checked against them.
type Layout struct {
	Kind           Kind
	Topic          string // without the pipeline's name
	Key            string // of a message; empty for records, which share one pattern
	Writer, Reader string
	Says           string // JSON: what it says, in a few words
	Value          any    // JSON: the zero value of its type
	Tensors        []Part // records
	Notes          []Part // records
}

// Part is one tensor or note of a record.
type Part struct {
	Name string
	Text string // Markdown: shape and meaning
}

// Layouts is every kind of message, in the order of FORMAT.md. A kind that is not
// listed here fails a test.
func Layouts() []Layout {
	return []Layout{
		examplesLayout(), residualsLayout(),
		visitLayout(), gramLayout(), sampleLayout(), sealLayout(), surveyResultLayout(), weightsLayout(), reportLayout(),
		planLayout(), endLayout(), stageReportLayout(), sourceLayout(), failureLayout(), manifestLayout(),
		quarantineLayout(),
	}
}
