package screen

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/internal/assert"
)

// described returns the columns of a table: texts, with cells given by functions from row to cell.
func described(rows int, kind tabular.Field, columns map[string]func(row int) string) *Columns {
	all := NewColumns(ingest.Defaults().MissingValues)
	for name, cell := range columns {
		kind.Name = name
		c := newColumn(len(all.list), kind)
		for row := range rows {
			c.add(cell(row), all.missing)
		}
		all.list = append(all.list, c)
	}
	return all
}

// texts are the columns of a CSV file.
var texts = tabular.Field{Kind: tabular.Text, Digits: true}

// The role of a column depends on its contents, but not on other columns.
func TestRoles(t *testing.T) {
	hash := func(row, of int) int { return row * 7919 % of }
	for _, c := range []struct {
		name string
		cell func(row int) string
		role columnRole
		why  string
	}{
		{"length", func(row int) string { return fmt.Sprint(0.5 * float64(hash(row, 50))) }, roleNumber, "0 to 24.5"},
		{"rooms", turns("1|2|3"), roleNumber, "whole, 1 to 3"},
		{"gap", turns("|NA|2|3"), roleNumber, "whole, 2 to 3; missing in 100 rows"},
		{"odd", func(row int) string { return map[bool]string{true: "unknown", false: fmt.Sprint(row % 7)}[row%20 == 0] }, roleNumber,
			`whole, 0 to 6; missing in 10 rows (unknown)`},
		{"smoker", turns("True|False"), roleNumber, "true and false"},
		{"id", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleIdentifier, "whole numbers, all different"},
		{"customerId", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleIdentifier, "whole numbers, all different"},
		{"income", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleNumber, "whole, "},
		{"anything", turns("#"), roleIdentifier, "numbers the rows, from 1"},
		{"id_type", turns("0|1|2|3"), roleNumber, "whole, 0 to 3"},
		{"colour", turns("red|blue|"), roleCategory, `2 words: blue, red; missing in 66 rows`},
		{"mixed", turns("a1|2|3"), roleCategory, "3 words"},
		{"uuid", func(row int) string { return fmt.Sprintf("%08x-x", hash(row, 100003)) }, roleIdentifier, "text, all different"},
		{"ticket", func(row int) string { return fmt.Sprintf("T %d", row*2/3) }, roleIdentifier, "different words in 200 rows"},
		{"note", turns("some words of row number #"), roleText, "texts of 6 words on average"},
		{"day", func(row int) string { return fmt.Sprintf("2026-03-%02d", 1+row%28) }, roleTime, "dates"},
		{"german", func(row int) string { return fmt.Sprintf("%02d.03.2026", 1+row%28) }, roleDate, "dates or times"},
		{"at", func(row int) string { return fmt.Sprintf("2026-03-01T12:%02d:00Z", row%60) }, roleTime, "dates and times of day"},
		{"clock", func(row int) string { return fmt.Sprintf("12:%02d", row%60) }, roleDate, "dates or times"},
		{"same", turns("x"), roleConstant, `always "x"`},
		{"seven", turns("7"), roleConstant, `always "7"`},
		{"empty", turns(""), roleConstant, "no values"},
	} {
		checkColumn(t, c.name, c.cell, c.role, c.why)
	}
}

// checkColumn checks the role of a column of 200 rows, beside a label, and a part of the reason. "": the reason has no numbers.
func checkColumn(t *testing.T, name string, cell func(row int) string, role columnRole, why string) {
	t.Helper()
	table := described(200, texts, map[string]func(int) string{name: cell, "label": turns("a|b")})
	assert.NoError(t, table.assign("label"))
	for _, a := range table.list {
		if a.Name == name && (a.role != role || !strings.Contains(a.why, why) || why == "" && a.formatted() != "" &&
			strings.Contains(a.why, a.formatted())) {
			t.Errorf("%s: %s (%s), expected %s (%s)", name, a.role, a.why, role, why)
		}
	}
}

// turns returns the cells of a column: texts that take turns, with the number of the row, from 1, for #.
func turns(cells string) func(row int) string {
	texts := strings.Split(cells, "|")
	return func(row int) string { return strings.ReplaceAll(texts[row%len(texts)], "#", fmt.Sprint(row+1)) }
}

// Numbers that are formatted for people are neither identifiers nor texts: the reason says how to write them. Words with digits, codes and
// addresses are no numbers.
func TestFormattedNumbers(t *testing.T) {
	streets, few := "", "1,250"+strings.Repeat("|#", 49)
	for letter := 'A'; letter <= 'Z'; letter++ {
		streets += fmt.Sprintf("|# %c Street", letter)
	}
	for _, c := range []struct {
		name  string
		cells string // that take turns, with the number of the row, from 1, for #
		role  columnRole
		why   string // "": nothing of numbers
	}{
		{"decimal comma", "#,25", roleUnused, `write "100,25" as 100.25`},
		{"German", "1.500,#", roleUnused, `write "1.500,100" as 1500.100`},
		{"dollars", "$#.25", roleUnused, `write "$100.25" as 100.25`},
		{"thousands", "$#,500.50", roleUnused, `write "$100,500.50" as 100500.50`},
		{"euros", "# 500,50\u00a0€", roleUnused, `as 100500.50`},
		{"Swiss", "CHF #’500.50", roleUnused, `as 100500.50`},
		{"Swedish", "#,5 kr", roleUnused, `write "100,5 kr" as 100.5`},
		{"reals", "R$ #,5", roleUnused, `write "R$ 100,5" as 100.5`},
		{"lakhs", "Rs. 1,00,000.#", roleUnused, `as 100000.100`},
		{"accounting", "(#,500.25)", roleUnused, `as -100500.25`},
		{"SAP", "#.500,25-", roleUnused, `as -100500.25`},
		{"minus sign", "−#.25", roleUnused, `as -100.25`},
		{"percent", "5%|10%|12.5%", roleCategory, `3 words: "10%", "5%", "12.5%"; formatted numbers: write "12.5%" as 12.5`},
		{"terms", " 36 months| 60 months", roleCategory, `write "36 months" as 36`},
		{"engine", "# CC", roleUnused, `write "100 CC" as 100`},
		{"some small", "#|#,500", roleUnused, `write "100,500" as 100500 or 100.500`},
		{"point elsewhere", "#.5|#,500", roleUnused, `write "100,500" as 100500`},
		{"few with separators", few, roleNumber, `missing in 4 rows ("1,250"); formatted numbers: write "1,250" as 1250 or 1.250`},
		{"magnitudes", "#.5k|#M", roleUnused, `numbers in several units, such as "98M" and "99.5k": write them in one, without its name`},
		{"weights", "# kg|# g|#", roleUnused, "in several units"},
		{"races", "#:07|#:59.5", roleUnused, `durations: write "`},
		{"scores", "#:99|#:3", roleIdentifier, ""},
		{"seats", "#A|#B|#C|#D|#E|#F", roleIdentifier, ""},
		{"streets", streets[1:], roleIdentifier, ""},
		{"both ways", "1,234.5|1.234,5|7.5", roleCategory, "formatted in several ways"},
		{"order_id", "# 500", roleIdentifier, ""},
		{"codes", "A#", roleIdentifier, ""},
		{"addresses", "192.168.100.#", roleIdentifier, ""},
		{"versions", "1.#.3", roleIdentifier, ""},
		{"ranges", "10-20|20-30|1/2", roleCategory, ""},
		{"ordinals", "1st|2nd|3rd", roleCategory, ""},
		{"sizes", "12A|14B|16C", roleCategory, ""},
	} {
		checkColumn(t, c.name, turns(c.cells), c.role, c.why)
	}
	table := described(200, tabular.Field{Kind: tabular.Text, Type: "string"}, map[string]func(int) string{
		"price":    func(row int) string { return fmt.Sprintf("%d.25", row) },
		"postcode": func(row int) string { return fmt.Sprintf("%05d", row*7919%10007) },
		"label":    turns("a|b"),
	})
	assert.NoError(t, table.assign("label"))
	for _, a := range table.list {
		if a.Name == "price" && a.why != `numbers stored as text, such as "100.25": store them as numbers` ||
			a.Name == "postcode" && a.role != roleIdentifier {
			t.Errorf("%s: %s (%s)", a.Name, a.role, a.why)
		}
	}
}

// A label is a word, or an integer with few values; other numbers are regression targets. An unusable label is an error.
func TestRoleOfLabel(t *testing.T) {
	for _, c := range []struct {
		cell func(row int) string
		role columnRole
		want string // part of the reason or the error
	}{
		{turns("yes|no|no|no"), roleLabel, `2 labels: no 75 %, yes 25 %`},
		{func(row int) string { return fmt.Sprint(row % 10) }, roleLabel, "10 labels"},
		{turns("a|b|"), roleLabel, "none in 66 rows"},
		{turns("1|2|x"), roleLabel, "3 labels"},
		{func(row int) string { return fmt.Sprint(float64(row) / 4) }, roleTarget, "numbers, 0 to 49.75"},
		{func(row int) string { return fmt.Sprint(3 * row) }, roleTarget, "numbers, 0 to 597"},
		{turns("0.5|"), "", "no target in 100 rows"},
		{turns("a"), "", `each label is "a"`},
		{turns(""), "", "no row has a label"},
		{turns("name #"), "", "are no labels"},
		{func(row int) string { return fmt.Sprintf("$%d,500.00", 100+row) }, "", `write "$100,500.00" as 100500.00`},
		{turns("0,5|1,5"), roleLabel, `2 labels: "0,5" 50 %, "1,5" 50 %; formatted numbers`},
	} {
		table := described(200, texts, map[string]func(int) string{"label": c.cell})
		err := table.assign("label")
		if c.role == "" {
			assert.Fails(t, err, c.want)
			continue
		}
		assert.True(t, err == nil && table.list[0].role == c.role && strings.Contains(table.list[0].why, c.want),
			"%s, error %v, expected %s (%s)", table.list[0].why, err, c.role, c.want)
	}
}

// Different texts are counted up to the limit of categorical columns, in memory of that size, and a repeated one is noticed.
func TestDifferent(t *testing.T) {
	for n, want := range map[int]string{1: "1", 100: "100", 1000: "1,000", 1001: "more than 1,000", 300_000: "more than 1,000"} {
		table := described(n+n/2, texts, map[string]func(int) string{"label": func(row int) string { return fmt.Sprintf("w%d", row%n) }})
		c := table.list[0]
		assert.True(t, c.different() == want && len(c.words) <= maxWords && c.repeat == (n > 1), "%s different texts of %d", c.different(), n)
	}
}

// Columns with empty, numeric or duplicate names are identified by number.
func TestKeys(t *testing.T) {
	table, keys := NewColumns(nil), []string{}
	for at, name := range []string{"", "7", "twice", "twice", "fine"} {
		table.list = append(table.list, newColumn(at, tabular.Field{Name: name}))
	}
	assert.True(t, table.assign("") != nil, "columns without a label")
	for _, c := range table.list {
		keys = append(keys, c.key)
	}
	assert.Equal(t, strings.Join(keys, " "), "0 1 2 3 fine", "")
}

// The columns of a table are the same in every format.
func TestColumns(t *testing.T) {
	folder := t.TempDir()
	files := map[string]string{
		"t.csv":   "a,b,c\n1,x,true\n2.5,,false\n,y,true\n",
		"t.jsonl": `{"a":1,"b":"x","c":true}` + "\n" + `{"a":2.5,"b":null,"c":false}` + "\n" + `{"a":null,"b":"y","c":true}` + "\n",
	}
	for name, content := range files {
		path := filepath.Join(folder, name)
		assert.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		o := ingest.Defaults()
		o.Label = "c"
		table := NewColumns(o.MissingValues)
		assert.NoError(t, ingest.Survey(context.Background(), path, o, table))
		var got []string
		for _, c := range table.list {
			got = append(got, fmt.Sprint(c.Name, " ", c.rows, " ", c.missing, " ", c.numbers, " ", len(c.words)))
		}
		assert.Equal(t, strings.Join(got, ", "), "a 3 1 2 2, b 3 1 0 2, c 3 0 3 2", "%s", name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.Fails(t, ingest.Survey(ctx, filepath.Join(folder, "t.csv"), ingest.Defaults(), NewColumns(nil)), context.Canceled)
}
