// Command mutate changes the core of the program at random places, one at a time, and says which tests fail: a sign, a bound or a
// condition that no test needs is a gap in the tests.
//
//	go run ./scripts/mutate -seed 1 -n 40
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A place is an operator in a file, and what replaces it.
type place struct {
	file         string
	offset, line int
	from, to     string
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: \S+|^panic: .*|^FAIL.*`)

func main() {
	n := flag.Int("n", 40, "how many places")
	seed := flag.Uint64("seed", 1, "draws the places")
	core := flag.String("core", "accumulate,solve,stages,sink,internal/link,internal/tree,pipeline/solver,pipeline/worker",
		"folders, separated by commas")
	flag.Parse()
	var places []place
	for _, folder := range strings.Split(*core, ",") {
		found, err := placesIn(folder)
		check(err)
		places = append(places, found...)
	}
	tried, survived := 0, 0
	for order := rand.New(rand.NewPCG(*seed, 0)).Perm(len(places)); tried < *n && len(order) > 0; order = order[1:] {
		p := places[order[0]]
		by, compiles, err := p.caught()
		check(err)
		if !compiles {
			continue
		} else if tried++; by == "" {
			survived++
		}
		fmt.Printf("%s:%d: %s for %s: %s\n", p.file, p.line, p.to, p.from, cmp.Or(by, "SURVIVED"))
	}
	fmt.Printf("%d of %d mutations are caught\n", tried-survived, tried)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// placesIn returns the operators of a folder that can be replaced, in the order of files.
func placesIn(folder string) (places []place, err error) {
	replaced := map[token.Token]token.Token{token.ADD: token.SUB, token.SUB: token.ADD, token.LSS: token.LEQ, token.LEQ: token.LSS,
		token.GTR: token.GEQ, token.GEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND}
	err = filepath.WalkDir(folder, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if b, ok := node.(*ast.BinaryExpr); ok && replaced[b.Op] != 0 {
				at := set.Position(b.OpPos)
				places = append(places, place{file, at.Offset, at.Line, b.Op.String(), replaced[b.Op].String()})
			}
			return true
		})
		return nil
	})
	return places, err
}

// caught returns the first test that fails with the mutation: of its package, or else of those that train. The working tree stays as it is.
func (p place) caught() (by string, compiles bool, err error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(folder)
	content, err := os.ReadFile(p.file)
	if err != nil {
		return "", false, err
	}
	content = slices.Concat(content[:p.offset], []byte(p.to), content[p.offset+len(p.from):])
	mutated, overlay := filepath.Join(folder, "mutated.go"), filepath.Join(folder, "overlay.json")
	files := fmt.Sprintf(`{"Replace": {%q: %q}}`, p.file, mutated)
	if err := errors.Join(os.WriteFile(overlay, []byte(files), 0o600), os.WriteFile(mutated, content, 0o600)); err != nil {
		return "", false, err
	}
	own := "./" + filepath.ToSlash(filepath.Dir(p.file))
	if exec.Command("go", "build", "-overlay", overlay, own).Run() != nil {
		return "", false, nil
	}
	for _, tests := range [][]string{{"-short", own}, {"-run", "^(TestSimulation|TestDigitsDigest)$", "./pipeline", "./cmd/stagewise"}} {
		flags := []string{"test", "-failfast", "-vet=off", "-timeout", "5m", "-overlay", overlay}
		if output, err := exec.Command("go", append(flags, tests...)...).CombinedOutput(); err != nil {
			return strings.TrimSpace(failed.FindString(string(output))), true, nil
		}
	}
	return "", true, nil
}
