// Command licences prints the licences of all modules that the program links on a platform, and of Go. Archives, wheels and images
// carry them.
//
//	go run ./scripts/licences linux/amd64
//
// It reads the module cache: a licence in a folder above or beside a linked package counts, because modules contain code of others.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const program = "github.com/stagewise/stagewise/cmd/stagewise"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "licences: expected one argument, SYSTEM/PROCESSOR")
		os.Exit(2)
	}
	if err := print(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "licences: %v\n", err)
		os.Exit(1)
	}
}

// legal matches the names of files with licences, and with notices that a licence asks to pass on.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// print writes each text once, after the names of all files that have it.
func print(w io.Writer, platform string) error {
	system, processor, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("%s: expected SYSTEM/PROCESSOR", platform)
	}
	list := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", program)
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the packages of %s: %w", program, err)
	}
	texts := map[string][]string{} // the names of the files that have a text
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("ask for GOROOT: %w", err)
	}
	root := strings.TrimSpace(string(goroot))
	found := map[string]bool{}
	if err := read(texts, found, "Go "+runtime.Version(), root, root); err != nil {
		return err
	}
	for line := range strings.Lines(string(packages)) {
		if module, folders, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			root, folder, _ := strings.Cut(folders, "\t")
			for ; len(folder) >= len(root); folder = filepath.Dir(folder) {
				if err := read(texts, found, module, root, folder); err != nil {
					return err
				}
			}
			if !found[module] {
				return fmt.Errorf("%s has no licence in %s", module, root)
			}
		}
	}
	for _, text := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return slices.Compare(texts[a], texts[b]) }) {
		fmt.Fprintf(w, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 80), strings.Join(texts[text], "\n"), text)
	}
	return nil
}

// read adds the licences in a folder to the names of files by text, and the module to those that have one.
func read(texts map[string][]string, found map[string]bool, module, root, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read the licences of %s: %w", module, err)
	}
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return fmt.Errorf("read the licence of %s: %w", module, err)
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
		within, err := filepath.Rel(root, filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		if name := module + ": " + filepath.ToSlash(within); !slices.Contains(texts[text], name) {
			texts[text] = append(texts[text], name)
		}
		found[module] = found[module] || folder == root
	}
	return nil
}
