package draft

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/ingest/profile"
)

const (
	screenWidth = 80
	maxNameShow = 24 // of a column, on the screen
)

// Describe writes a line for each column: what it is for, and why.
func (d *Draft) Describe(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s rows, %d columns\n\n", d.File, humanize.Comma(int64(d.Table.Rows())), len(d.Roles))
	table := screen.Table{Width: screenWidth}
	table.Row("column", "use", "why")
	for _, a := range d.Roles {
		use, why := string(a.Role), a.Why
		if a.Role.IsDropped() {
			use = "dropped"
			if a.Role != profile.Unused {
				why = string(a.Role) + ": " + why
			}
		}
		name := a.Name
		if name == "" || string(d.key(a)) != name {
			name = strings.TrimSpace(string(d.key(a)) + " " + name)
		}
		table.Row(screen.Cut(name, maxNameShow), use, oneLine(why))
	}
	if err := table.Write(&out); err != nil {
		return err
	}
	for _, note := range d.notes() {
		out.WriteString("\n" + note + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// notes says what people should know before they train.
func (d *Draft) notes() (notes []string) {
	for _, a := range d.Roles {
		if format := a.Formatted(); format != "" && strings.HasSuffix(a.Why, format) {
			notes = append(notes, fmt.Sprintf("%s: %s to use them as numbers.", d.key(a), format))
		}
	}
	label := d.label()
	if label.Role != profile.Label {
		return nil
	}
	words, _ := label.Words()
	if most, present := words[0], label.Present(); most.Rows*10 >= 9*present {
		notes = append(notes, fmt.Sprintf("%.3g %% of the rows are %s: always predicting it has an error of %.3g %%.",
			100*float64(most.Rows)/float64(present), most.Text, 100*float64(present-most.Rows)/float64(present)))
	}
	if least := words[len(words)-1]; least.Rows < 10 {
		rows := "rows"
		if least.Rows == 1 {
			rows = "row"
		}
		notes = append(notes, fmt.Sprintf("The label %s has %d %s: too few to learn it or to measure its error.", least.Text, least.Rows, rows))
	}
	return notes
}
