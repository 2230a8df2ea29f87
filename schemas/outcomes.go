package schemas

import (
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// OutcomesReport counts the rows and outcomes that were joined for the new rows of a run.
type OutcomesReport struct {
	examples.JoinCounts
	Alone int64   `json:"alone"` // outcomes without a row
	Limit float64 `json:"limit"` // fraction of outcomes without a row beyond which the version is withheld
	// RowKey describes a key of a row, as bytes and as read, if most outcomes have no row.
	RowKey     string `json:"row_key,omitempty"`
	OutcomeKey string `json:"outcome_key,omitempty"` // a key of an outcome, likewise
}

// OutcomesOf returns the report of the joined rows and outcomes; nil without a join.
func OutcomesOf(j *examples.Joined) *OutcomesReport {
	if j == nil {
		return nil
	}
	counts, _ := j.Counts()
	return &OutcomesReport{counts, counts.Alone(), j.Limit, j.RowKey, j.OutcomeKey}
}

// Withhold reports whether too many outcomes have no row for a version to be offered.
func (o *OutcomesReport) Withhold() bool {
	return o != nil && float64(o.Alone) > o.Limit*float64(o.Outcomes)
}

// Why explains why the version is withheld.
func (o *OutcomesReport) Why() string {
	return fmt.Sprintf("%d of %s have no row: their keys or times do not match. %s. %s. See examples.outcome.key_format; "+
		"examples.outcome.unmatched: 1 offers such versions", o.Alone, plural(o.Outcomes, "outcome"), o.RowKey, o.OutcomeKey)
}

// JoinText returns the counts of a join as text.
func JoinText(c examples.JoinCounts) string {
	text := fmt.Sprintf("%s decided, %d without an outcome; %s, %d without a row", plural(c.Rows, "message"),
		c.Absent, plural(c.Outcomes, "outcome"), c.Alone())
	if c.Late > 0 {
		disorder := time.Duration(c.Disorder) * time.Millisecond
		unit := time.Second
		if disorder > time.Minute {
			unit = time.Minute
		}
		grace := disorder.Truncate(unit)
		if grace < disorder {
			grace += unit
		}
		text += fmt.Sprintf(", %d after their row was decided: messages are out of order by up to %v, and examples.outcome.grace: %v would have "+
			"kept the rows", c.Late, disorder, grace)
	}
	return text
}

// plural returns a number of things with their name.
func plural(n int64, name string) string {
	if n != 1 {
		name += "s"
	}
	return fmt.Sprintf("%d %s", n, name)
}
