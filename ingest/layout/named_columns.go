package layout

// NamedColumns returns all columns that the options name.
func (o Options) NamedColumns() []Column {
	all := []Column{o.Label, o.Weight, o.Text, o.Served.Label, o.Served.Version}
	if o.later {
		o.Targets = nil // of other messages
	}
	for _, list := range [][]string{o.Columns.Use, o.Columns.Drop, o.Categorical, o.Times.Columns(), o.Targets, o.LabelColumns} {
		for _, c := range list {
			all = append(all, Column(c))
		}
	}
	return all
}

// AreColumns reports whether texts are different columns.
func AreColumns(texts []string) bool {
	known := map[string]bool{}
	for _, c := range texts {
		if n, isNumber := Column(c).Number(); c == "" || known[c] || isNumber && n < 0 {
			return false
		}
		known[c] = true
	}
	return true
}
