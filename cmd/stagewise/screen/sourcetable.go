package screen

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// WriteSources writes a row for each source.
func WriteSources(w io.Writer, sources []source.SourceState) error {
	var table artifact.Table
	table.Row("source", "state", "since", "split", "rows", "messages", "left", "files")
	for _, s := range sources {
		rows, split, files := none, none, none
		id, messages, left := short(s.ID, sources), strconv.FormatInt(s.Messages, 10), strconv.FormatInt(s.Left, 10)
		switch s.State {
		case source.Followed:
			id, messages, left, split, files = s.ID, none, none, s.Split, readTo(s.Read)
		case source.Unfinished:
		default:
			rows, split, files = strconv.FormatInt(s.Rows, 10), s.Split, strings.Join(s.Files, ", ")
		}
		table.Row(id, s.State, date(s.Since), split, rows, messages, left, files)
	}
	return table.Write(w)
}

// readTo says how far the partitions of a topic were read.
func readTo(positions []schemas.TopicPosition) string {
	offsets := make([]string, len(positions))
	for i, p := range positions {
		offsets[i] = fmt.Sprintf("[%d]@%d", p.Partition, p.Next)
	}
	return "read to " + strings.Join(offsets, " ")
}

// short returns the first digits of the id of a source: as many as people are shown of other ids, or more if another of the sources begins
// with these too.
func short(id string, sources []source.SourceState) string {
	digits := len(wire.Digest(id).Short())
	for _, other := range sources {
		for other.ID != id && digits < len(id) && strings.HasPrefix(other.ID, id[:digits]) {
			digits++
		}
	}
	return id[:digits]
}
