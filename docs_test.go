package stagewise

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

var (
	namedFile = regexp.MustCompile("`([a-z0-9/_]+\\.(?:go|s|sh|yaml|txtar))`")
	namedTest = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	target    = regexp.MustCompile("`make ([a-z-]+)")
	link      = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]+))?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// The pages about the code name no file, no test and no target of make that does not exist.
func TestTour(t *testing.T) {
	tests, makefile, targets := "", read(t, "Makefile"), 0
	for _, file := range files(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		tests += read(t, file)
	}
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/tour.md"} {
		text := read(t, page)
		for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(m[1])
			assert.True(t, err == nil, "%s names %s: %v", page, m[1], err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			assert.True(t, strings.Contains(tests, "\nfunc "+m[1]+"("), "%s names %s: there is no such test", page, m[1])
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			targets++
			assert.True(t, strings.Contains(makefile, "\n"+m[1]+":"), "%s names make %s: there is no such target", page, m[1])
		}
	}
	assert.True(t, targets != 0, "the pages name no target of make")
}

// The README's measurements are lines of the table that make bench wrote last.
func TestBenchTable(t *testing.T) {
	page, table, rows := read(t, "README.md"), read(t, "bench/table.md"), 0
	_, page, begins := strings.Cut(page, "<!-- from bench/table.md -->\n")
	page, _, ends := strings.Cut(page, "<!-- end -->")
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		assert.True(t, strings.Contains(table, line), "README.md has %q, which is not in bench/table.md", line)
	}
	assert.True(t, begins && ends && rows >= 2 && rows <= 9,
		"README.md shows %d lines of bench/table.md, expected its head and at most eight", rows)
}

// The README has one screen or two, and its commands work as they are written: its table becomes a model that predicts.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	page := read(t, "README.md")
	lines := strings.Count(page, "\n")
	assert.True(t, lines <= 120, "README.md has %d lines, expected at most 120", lines)
	checkKinds(t, filepath.Join(runPage(t, page, ""), "predicted.csv"), 0, "label")
}

// Every link leads to a file of the repository, and to a heading of it.
func TestLinks(t *testing.T) {
	pages := assert.Must(filepath.Glob("docs/*.md"))(t)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md", "python/README.md") {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			file := page
			if m[1] != "" {
				file = filepath.Join(filepath.Dir(page), m[1])
			}
			_, err := os.Stat(file)
			assert.True(t, err == nil, "%s: %v", page, err)
			found := err != nil || m[2] == "" || slices.Contains(anchors(read(t, file)), m[2])
			assert.True(t, found, "%s: %s has no heading #%s", page, file, m[2])
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// block is a block of commands, or of a program in Python.
var block = regexp.MustCompile("(?s)```(sh|python)\n(.*?)```")

// runPage builds stagewise and the examples, and runs the blocks of a page one after the other, in an empty folder,
// which it returns. No key is set by the environment. python runs the blocks in Python.
func runPage(t *testing.T, page, python string) (folder string) {
	t.Helper()
	programs, folder := t.TempDir(), t.TempDir()
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs, "./cmd/stagewise", "./examples/producer").CombinedOutput()
	assert.Need(t, err == nil, "%v\n%s", err, out)
	script := "set -eu\n"
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		if b[1] == "python" {
			b[2] = "\"$PYTHON\" - <<'PYTHON'\n" + b[2] + "PYTHON\n"
		}
		script += b[2]
	}
	commands := exec.CommandContext(t.Context(), "sh", "-c", script)
	commands.Dir = folder
	commands.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STAGEWISE_") })
	commands.Env = append(commands.Env, "PYTHON="+python, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err = commands.CombinedOutput()
	assert.Need(t, err == nil, "%v\n%s", err, out)
	return folder
}

// checkKinds checks that a column of a CSV begins with these values.
func checkKinds(t *testing.T, file string, column int, want ...string) {
	t.Helper()
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(read(t, file)), "\n") {
		got = append(got, strings.Split(line, ",")[column])
	}
	assert.Equal(t, got[:min(len(got), len(want))], want, "column %d of %s", column, file)
}

// The commands of the page about people's own data work as they are written, one after the other, in an empty folder. Those that need
// Python are in TestPythonYourOwnData.
func TestYourOwnData(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test")
	}
	page, _, found := strings.Cut(read(t, "docs/your-own-data.md"), "\n## Parquet")
	assert.Need(t, found, "the page has no section about Parquet")
	checkKinds(t, filepath.Join(runPage(t, page, ""), "predictions.csv"), 0, "label", "rose", "iris")
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(assert.Must(os.ReadFile(file))(t))
}

// Each metric that operators are told to act on has an alert.
func TestMetricsToActOnHaveAlerts(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/operating.md"), "\n## What to watch")
	section, _, _ = strings.Cut(section, "\n## ")
	alerts, names := read(t, "deploy/monitoring/alerts.yaml"), regexp.MustCompile("(?m)^\\|.*`stagewise_[a-z_]+`").FindAllString(section, -1)
	assert.Need(t, len(names) >= 15, "the table has %d rows of metrics", len(names))
	for _, row := range names {
		for _, name := range regexp.MustCompile("`(stagewise_[a-z_]+)`").FindAllStringSubmatch(row, -1) {
			assert.True(t, regexp.MustCompile(`\b`+name[1]+`(_bucket)?\b`).MatchString(alerts), "%s has no alert", name[1])
		}
	}
}
