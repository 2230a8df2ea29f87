package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// garden is a CSV with columns of many kinds, of which the colour and the length say the kind.
func garden(rows int) string {
	random := rand.New(rand.NewPCG(1, 1))
	kinds, colours := []string{"iris", "rose", "tulip"}, []string{"blue", "red", "yellow: pale"}
	var out strings.Builder
	out.WriteString("id,length,width,colour,planted,note,same,no,kind\n")
	for i := range rows {
		k := random.IntN(3)
		length, colour := fmt.Sprintf("%.2f", 2*float64(k)+random.Float64()), colours[k]
		switch random.IntN(20) {
		case 0:
			length = "NA"
		case 1:
			length = "?"
		case 2:
			colour = colours[random.IntN(3)]
		}
		fmt.Fprintf(&out, "%d,%s,%.3f,%s,2026-03-%02d,a note on flower %d,x,%d,%s\n", 1000+7*i, length, random.Float64(), colour, 1+i%28, i,
			random.IntN(4), kinds[k])
	}
	return out.String()
}

// A configuration that init writes trains at once, and its model uses the columns that say the label.
func TestInit(t *testing.T) {
	inFolder(t, map[string]string{"flowers.csv": garden(300)})
	if err := os.Mkdir("jobs", 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := stagewise("init", "flowers.csv", "--label", "kind", "-o", "jobs/flowers.yaml")
	if code != exitDone || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"300 rows, 9 columns\n", "id       dropped   identifier: whole numbers, all different\n", "length   number    0", "(\"?\")",
		"colour   category  3 words: ", "planted  time      dates\n", "note     dropped   texts of 5 words", "same     dropped   constant",
		"no       number    whole, 0 to 3\n", "kind     label     3 labels: ", "wrote jobs/flowers.yaml; next: stagewise train -c jobs/flowers.yaml",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := len([]rune(line)) - 1; n > 80 && !strings.HasPrefix(line, "wrote") {
			t.Errorf("%d characters in %q", n, line)
		}
	}
	config, err := os.ReadFile("jobs/flowers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"name: flowers ", "train: [../flowers.csv]", "label: kind ", "      - id ", "    planted: [weekday, age]  ", "    - colour ",
		"missing: mean ", `"?"]`, "holdout: 0.2"} {
		if !strings.Contains(string(config), want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
	if strings.Contains(string(config), "stages:") {
		t.Errorf("stages are set in\n%s", config)
	}
	if code, _, stderr := stagewise("check", "-c", "jobs/flowers.yaml"); code != exitDone {
		t.Fatalf("check: exit code %d: %s", code, stderr)
	}
	code, stdout, stderr = stagewise("train", "-c", "jobs/flowers.yaml", "--quiet", "--report", "-")
	var r schemas.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != exitDone || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stderr)
	}
	if e := r.Splits["holdout"].Error; e > 10 {
		t.Errorf("%v %% of the holdout rows are wrong", e)
	}
}

// What init writes is read back as it was meant, whatever the names of columns and files are, and numbers are predicted as numbers.
func TestInitOfOddTables(t *testing.T) {
	number := func(row int) string { return fmt.Sprint(float64(row*7919%101) / 8) }
	table := func(head string, cells ...func(row int) string) string {
		var out strings.Builder
		out.WriteString(head)
		for row := range 120 {
			for i, cell := range cells {
				if i > 0 {
					out.WriteString(",")
				}
				out.WriteString(cell(row))
			}
			out.WriteString("\n")
		}
		return out.String()
	}
	class := func(row int) string { return []string{"yes", "no"}[row%2] }
	word := func(row int) string { return []string{"# a", "b: c", `d`}[row%3] }
	index := func(row int) string { return fmt.Sprint(row) }
	price := func(row int) string { return fmt.Sprintf("\"$%d,%03d.50\"", row+1, row) }
	text := func(row int) string { return fmt.Sprintf("%s word and word %d", class(row), row) }
	inFolder(t, map[string]string{
		"a: [b] #c.csv": table("true,\"x: y\",\"# z\",\"null\"\n", class, word, number, word),
		"numbers.csv":   table("a,b,y\n", number, word, number),
		"frame.csv":     table(",0,label\n", index, number, class),
		"plain.csv":     table("", index, number, class),
		"prices.csv":    table("price,size,label\n", price, number, class),
		"texts.csv":     table("body,label\n", text, class),
	})
	for _, c := range []struct{ file, label, want string }{
		{"a: [b] #c.csv", "true", "name: a-b-c "},
		{"numbers.csv", "y", `targets: ["y"]`},
		{"frame.csv", "label", "      - 0  "},
		{"plain.csv", "2", "      - 0  "},
		{"prices.csv", "label", `- price   # formatted numbers: write "$100,099.50" as 100099.50`},
		{"texts.csv", "label", "text: body"},
	} {
		if code, _, stderr := stagewise("init", c.file, "--label", c.label, "--force"); code != exitDone {
			t.Errorf("%s: exit code %d: %s", c.file, code, stderr)
			continue
		}
		config, err := os.ReadFile("stagewise.yaml")
		if err != nil || !strings.Contains(string(config), c.want) {
			t.Errorf("%s: no %q in\n%s", c.file, c.want, config)
		}
		if code, _, stderr := stagewise("train", "-c", "stagewise.yaml", "--quiet"); code != exitDone {
			t.Errorf("%s: exit code %d: %s\n%s", c.file, code, stderr, config)
		}
	}
}

// A file that is there stays, unless --force is given, and an error leaves no file.
func TestInitIsChecked(t *testing.T) {
	inFolder(t, map[string]string{"flowers.csv": garden(60), "stagewise.yaml": "mine", "same.csv": "a,b\n1,x\n2,x\n", "none.csv": "a,b\n",
		"rows.libsvm": "1 1:2\n", "only.csv": "a,b\nx,1\nx,2\n", "lone.csv": "b\n1\n2\n", "bad.csv": "a,b\n1,x\n1,2,3\n"})
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"flowers.csv --label kind", "write stagewise.yaml: it exists: expected --force, or another file with -o", exitWrong},
		{"flowers.csv -o a.yaml", ", or a name that the first row has", exitWrong},
		{"flowers.csv -o a.yaml --header", "expected --label and one of the columns \"id\", \"length\"", exitWrong},
		{"flowers.csv -o a.yaml --label kin", `--label: "kin": expected one of the columns "id"`, exitWrong},
		{"flowers.csv -o none/a.yaml --label kind", "write none/a.yaml: stat none: no such file", exitWrong},
		{"none -o a.yaml --label kind", "none: no such file or directory", exitFailed},
		{"- -o a.yaml --label kind", "expected a file", exitWrong},
		{"same.csv -o a.yaml --label b", `same.csv: column b: each label is "x"`, exitWrong},
		{"none.csv -o a.yaml --label b", "no row follows the header", exitFailed},
		{"rows.libsvm -o a.yaml --label b", "format libsvm: expected a table: csv, arrow, parquet or jsonl", exitFailed},
		{"lone.csv -o a.yaml --label b", "no feature columns remain: it has only the label", exitWrong},
		{"only.csv -o a.yaml --label b", `no feature columns remain: a is dropped (always "x")`, exitWrong},
		{"bad.csv -o a.yaml --label b", "line 3: 3 columns, expected 2", exitFailed},
		{"flowers.csv -o a.yaml --label kind --format xml", "--format: xml: expected idx, csv", exitWrong},
		{"flowers.csv -o a.yaml --label kind --delimiter ab", "--delimiter: ", exitWrong},
	} {
		code, _, stderr := stagewise(append([]string{"init"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", c.args, code, stderr, c.want)
		}
		if _, err := os.Stat("a.yaml"); err == nil {
			t.Errorf("%s: a file was written", c.args)
		}
	}
	if mine, err := os.ReadFile("stagewise.yaml"); err != nil || string(mine) != "mine" {
		t.Errorf("stagewise.yaml has %q, error %v", mine, err)
	}
	code, stdout, stderr := stagewise("init", "flowers.csv", "--label", "kind", "-o", "-")
	if code != exitDone || !strings.Contains(stdout, "name: flowers") || !strings.Contains(stderr, "60 rows, 9 columns") {
		t.Errorf("exit code %d, output %q, errors %q", code, stdout, stderr)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(&interruption{syscall.SIGINT})
	var out, errs bytes.Buffer
	if code := execute(ctx, []string{"init", "flowers.csv", "--label", "kind", "-o", "a.yaml"}, &out, &errs); code != exitInterrupted {
		t.Errorf("exit code %d after Ctrl-C: %s", code, errs.String())
	}
	if _, err := os.Stat("a.yaml"); err == nil {
		t.Error("a file was written after Ctrl-C")
	}
}
