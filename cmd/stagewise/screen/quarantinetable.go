package screen

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
)

// WriteQuarantine writes a row for each reason: how many messages have it, where the first and the last of them are, and the reason.
func WriteQuarantine(w io.Writer, reasons []source.QuarantineReason) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "messages\tfirst\tlast\treason")
	place := func(q schemas.Quarantined) string { return fmt.Sprintf("%s[%d]@%d", q.Topic, q.Partition, q.Offset) }
	for _, r := range reasons {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", r.Messages, place(r.First), place(r.Last), r.Reason)
	}
	return table.Flush()
}
