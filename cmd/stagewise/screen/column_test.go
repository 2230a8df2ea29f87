package screen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/format/tabular"
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
		{"rooms", func(row int) string { return fmt.Sprint(1 + row%3) }, roleNumber, "whole, 1 to 3"},
		{"gap", func(row int) string { return []string{"", "NA", "2", "3"}[row%4] }, roleNumber, "whole, 2 to 3; missing in 100 rows"},
		{"odd", func(row int) string { return map[bool]string{true: "unknown", false: fmt.Sprint(row % 7)}[row%20 == 0] }, roleNumber,
			`whole, 0 to 6; missing in 10 rows (unknown)`},
		{"smoker", func(row int) string { return []string{"True", "False"}[row%2] }, roleNumber, "true and false"},
		{"id", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleIdentifier, "whole numbers, all different"},
		{"customerId", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleIdentifier, "whole numbers, all different"},
		{"income", func(row int) string { return fmt.Sprint(5 * hash(row, 10007)) }, roleNumber, "whole, "},
		{"anything", func(row int) string { return fmt.Sprint(row + 1) }, roleIdentifier, "numbers the rows, from 1"},
		{"id_type", func(row int) string { return fmt.Sprint(row % 4) }, roleNumber, "whole, 0 to 3"},
		{"colour", func(row int) string { return []string{"red", "blue", ""}[row%3] }, roleCategory, `2 words: blue, red; missing in 66 rows`},
		{"mixed", func(row int) string { return []string{"a1", "2", "3"}[row%3] }, roleCategory, "3 words"},
		{"uuid", func(row int) string { return fmt.Sprintf("%08x-x", hash(row, 100003)) }, roleIdentifier, "text, all different"},
		{"ticket", func(row int) string { return fmt.Sprintf("T %d", row*2/3) }, roleIdentifier, "different words in 200 rows"},
		{"note", func(row int) string { return fmt.Sprintf("some words of row number %d", row) }, roleText, "texts of 6 words on average"},
		{"day", func(row int) string { return fmt.Sprintf("2026-03-%02d", 1+row%28) }, roleTime, "dates"},
		{"german", func(row int) string { return fmt.Sprintf("%02d.03.2026", 1+row%28) }, roleDate, "dates or times"},
		{"at", func(row int) string { return fmt.Sprintf("2026-03-01T12:%02d:00Z", row%60) }, roleTime, "dates and times of day"},
		{"clock", func(row int) string { return fmt.Sprintf("12:%02d", row%60) }, roleDate, "dates or times"},
		{"same", func(int) string { return "x" }, roleConstant, `always "x"`},
		{"seven", func(int) string { return "7" }, roleConstant, `always "7"`},
		{"empty", func(int) string { return "" }, roleConstant, "no values"},
	} {
		table := described(200, texts, map[string]func(int) string{c.name: c.cell, "label": func(row int) string { return []string{"a", "b"}[row%2] }})
		if err := table.assign("label"); err != nil {
			t.Fatal(err)
		}
		for _, a := range table.list {
			if a.Name == c.name && (a.role != c.role || !strings.Contains(a.why, c.why)) {
				t.Errorf("%s: %s (%s), expected %s (%s)", c.name, a.role, a.why, c.role, c.why)
			}
		}
	}
}

// Numbers that are formatted for people are neither identifiers nor texts: the reason says how to write them. Words with digits, codes and
// addresses are no numbers.
func TestFormattedNumbers(t *testing.T) {
	of := func(cells ...string) func(int) string { return func(row int) string { return cells[row%len(cells)] } }
	for _, c := range []struct {
		name string
		cell func(row int) string
		role columnRole
		why  string // "": nothing of numbers
	}{
		{"decimal comma", func(row int) string { return fmt.Sprintf("%d,%02d", row/3, row%100) }, roleUnused, `write "10,30" as 10.30`},
		{"German", func(row int) string { return fmt.Sprintf("%d.%03d,%02d", 1+row, row*7919%1000, row%100) }, roleUnused,
			`write "100.981,99" as 100981.99`},
		{"dollars", func(row int) string { return fmt.Sprintf("$%d.%02d", 10+row, row%100) }, roleUnused, `write "$100.90" as 100.90`},
		{"thousands", func(row int) string { return fmt.Sprintf("$%d,%03d.50", 1+row, row) }, roleUnused, `write "$100,099.50" as 100099.50`},
		{"euros", func(row int) string { return fmt.Sprintf("%d %03d,50\u00a0€", 100+row, row) }, roleUnused, `as 100000.50`},
		{"Swiss", func(row int) string { return fmt.Sprintf("CHF %d’%03d.50", 100+row, row) }, roleUnused, `as 100000.50`},
		{"Swedish", func(row int) string { return fmt.Sprintf("%d,%d kr", 100+row, row%10) }, roleUnused, `write "100,0 kr" as 100.0`},
		{"reals", func(row int) string { return fmt.Sprintf("R$ %d,%d", 100+row, row%10) }, roleUnused, `write "R$ 100,0" as 100.0`},
		{"lakhs", func(row int) string { return fmt.Sprintf("Rs. %d,00,%03d.00", 1+row%9, row) }, roleUnused, `as 100000.00`},
		{"accounting", func(row int) string { return fmt.Sprintf("(%d,%03d.25)", 100+row, row) }, roleUnused, `as -100000.25`},
		{"SAP", func(row int) string { return fmt.Sprintf("%d.%03d,25-", 100+row, row) }, roleUnused, `as -100000.25`},
		{"minus sign", func(row int) string { return fmt.Sprintf("−%d.25", 100+row) }, roleUnused, `as -100.25`},
		{"percent", of("5%", "10%", "12.5%"), roleCategory, `3 words: "10%", "5%", "12.5%"; formatted numbers: write "12.5%" as 12.5`},
		{"terms", of(" 36 months", " 60 months"), roleCategory, `write "36 months" as 36`},
		{"engine", func(row int) string { return fmt.Sprintf("%d CC", 600+row) }, roleUnused, `write "600 CC" as 600`},
		{"some small", func(row int) string {
			if row%3 == 0 {
				return fmt.Sprint(row)
			}
			return fmt.Sprintf("%d,%03d", row, row)
		}, roleUnused, `write "100,100" as 100100 or 100.100`},
		{"point elsewhere", func(row int) string {
			if row%3 == 0 {
				return fmt.Sprintf("%d.5", row)
			}
			return fmt.Sprintf("%d,%03d", row, row)
		}, roleUnused, `write "100,100" as 100100`},
		{"few with separators", func(row int) string {
			if row%50 == 0 {
				return "1,250"
			}
			return fmt.Sprint(row)
		}, roleNumber, `missing in 4 rows ("1,250"); formatted numbers: write "1,250" as 1250 or 1.250`},
		{"magnitudes", func(row int) string { return []string{fmt.Sprintf("%d.5k", row), fmt.Sprintf("%dM", row)}[row%2] }, roleUnused,
			`numbers in several units, such as "98.5k" and "9M": write them in one, without its name`},
		{"weights", func(row int) string {
			return []string{fmt.Sprintf("%d kg", 1+row), fmt.Sprintf("%d g", 100+row), fmt.Sprint(row)}[row%3]
		},
			roleUnused, "in several units"},
		{"seats", func(row int) string { return fmt.Sprintf("%d%c", row/6, 'A'+row%6) }, roleIdentifier, ""},
		{"streets", func(row int) string { return fmt.Sprintf("%d %c Street", row, 'A'+row%26) }, roleIdentifier, ""},
		{"both ways", of("1,234.5", "1.234,5", "7.5"), roleCategory, "formatted in several ways"},
		{"order_id", func(row int) string { return fmt.Sprintf("%d %03d", 100+row, row) }, roleIdentifier, ""},
		{"codes", func(row int) string { return fmt.Sprintf("A%d", row) }, roleIdentifier, ""},
		{"addresses", func(row int) string { return fmt.Sprintf("192.168.100.%d", 1+row) }, roleIdentifier, ""},
		{"versions", func(row int) string { return fmt.Sprintf("1.%d.3", row) }, roleIdentifier, ""},
		{"ranges", of("10-20", "20-30", "1/2"), roleCategory, ""},
		{"ordinals", of("1st", "2nd", "3rd"), roleCategory, ""},
		{"sizes", of("12A", "14B", "16C"), roleCategory, ""},
	} {
		table := described(200, texts, map[string]func(int) string{c.name: c.cell, "label": of("a", "b")})
		if err := table.assign("label"); err != nil {
			t.Fatal(err)
		}
		for _, a := range table.list {
			if a.Name == c.name && (a.role != c.role || !strings.Contains(a.why, c.why) || c.why == "" && a.formatted() != "" &&
				strings.Contains(a.why, a.formatted())) {
				t.Errorf("%s: %s (%s), expected %s (%s)", c.name, a.role, a.why, c.role, c.why)
			}
		}
	}
	table := described(200, tabular.Field{Kind: tabular.Text, Type: "string"}, map[string]func(int) string{
		"price":    func(row int) string { return fmt.Sprintf("%d.25", row) },
		"postcode": func(row int) string { return fmt.Sprintf("%05d", row*7919%10007) },
		"label":    of("a", "b"),
	})
	if err := table.assign("label"); err != nil {
		t.Fatal(err)
	}
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
		{func(row int) string { return []string{"yes", "no", "no", "no"}[row%4] }, roleLabel, `2 labels: no 75 %, yes 25 %`},
		{func(row int) string { return fmt.Sprint(row % 10) }, roleLabel, "10 labels"},
		{func(row int) string { return []string{"a", "b", ""}[row%3] }, roleLabel, "none in 66 rows"},
		{func(row int) string { return []string{"1", "2", "x"}[row%3] }, roleLabel, "3 labels"},
		{func(row int) string { return fmt.Sprint(float64(row) / 4) }, roleTarget, "numbers, 0 to 49.75"},
		{func(row int) string { return fmt.Sprint(3 * row) }, roleTarget, "numbers, 0 to 597"},
		{func(row int) string { return []string{"0.5", ""}[row%2] }, "", "no target in 100 rows"},
		{func(int) string { return "a" }, "", `each label is "a"`},
		{func(int) string { return "" }, "", "no row has a label"},
		{func(row int) string { return fmt.Sprintf("name %d", row) }, "", "are no labels"},
		{func(row int) string { return fmt.Sprintf("$%d,500.00", 100+row) }, "", `write "$100,500.00" as 100500.00`},
		{func(row int) string { return []string{"0,5", "1,5"}[row%2] }, roleLabel, `2 labels: "0,5" 50 %, "1,5" 50 %; formatted numbers`},
	} {
		table := described(200, texts, map[string]func(int) string{"label": c.cell})
		err := table.assign("label")
		if c.role == "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, expected %q", err, c.want)
			}
			continue
		}
		if err != nil || table.list[0].role != c.role || !strings.Contains(table.list[0].why, c.want) {
			t.Errorf("%s, error %v, expected %s (%s)", table.list[0].why, err, c.role, c.want)
		}
	}
}

// The count of different texts is exact up to the sample size, and within some percent above it.
func TestDifferent(t *testing.T) {
	for _, n := range []int{1, 100, 16_384, 300_000} {
		table := described(n+n/2, texts, map[string]func(int) string{"label": func(row int) string { return fmt.Sprintf("w%d", row%n) }})
		got := table.list[0].different.count()
		if n <= 16_384 && got != n || got < n*9/10 || got > n*11/10 {
			t.Errorf("%d different texts of %d", got, n)
		}
	}
}

// Columns with empty, numeric or duplicate names are identified by number.
func TestKeys(t *testing.T) {
	table, keys := NewColumns(nil), []string{}
	for at, name := range []string{"", "7", "twice", "twice", "fine"} {
		table.list = append(table.list, newColumn(at, tabular.Field{Name: name}))
	}
	if err := table.assign(""); err == nil {
		t.Error("columns without a label")
	}
	for _, c := range table.list {
		keys = append(keys, c.key)
	}
	if got := strings.Join(keys, " "); got != "0 1 2 3 fine" {
		t.Error(got)
	}
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
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		o := ingest.Defaults()
		o.Label = "c"
		table := NewColumns(o.MissingValues)
		if err := ingest.Survey(context.Background(), path, o, table); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range table.list {
			got = append(got, fmt.Sprint(c.Name, " ", c.rows, " ", c.missing, " ", c.numbers, " ", c.different.count()))
		}
		if want := "a 3 1 2 2, b 3 1 0 2, c 3 0 3 2"; strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, expected %s", name, strings.Join(got, ", "), want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ingest.Survey(ctx, filepath.Join(folder, "t.csv"), ingest.Defaults(), NewColumns(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a context that has ended", err)
	}
}
