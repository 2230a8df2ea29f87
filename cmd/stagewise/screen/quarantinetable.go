package screen

import (
	"fmt"
	"io"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
)

// WriteQuarantine writes a row for each reason: how many messages have it, where the first and the last of them are, and the reason.
func WriteQuarantine(w io.Writer, reasons []source.QuarantineReason) error {
	var table artifact.Table
	table.Row("messages", "first", "last", "reason")
	place := func(q schemas.Quarantined) string { return fmt.Sprintf("%s[%d]@%d", q.Topic, q.Partition, q.Offset) }
	for _, r := range reasons {
		table.Row(r.Messages, place(r.First), place(r.Last), r.Reason)
	}
	return table.Write(w)
}
