package examples

// Columns of the served answers.
const (
	columnServed        = "served"
	columnServedVersion = "served_version"
)

// MaxVersion is the highest version that a row may name.
const MaxVersion = 1<<31 - 1

// Served is the answer of a server for a row before its label was known.
type Served struct {
	Label   string // "": unknown
	Version int    // version that answered; 0: unknown
}

// known reports whether a row was served.
func (s Served) known() bool { return s.Label != "" && s.Version > 0 }

// Answer returns the served label of a row, and the version that answered. ok is false if they are unknown, and for forgotten rows.
func (r *Rows) Answer(row int) (served Served, ok bool) {
	if len(r.Served) == 0 || r.forgot(row) {
		return Served{}, false
	}
	return r.Served[row], r.Served[row].known()
}
