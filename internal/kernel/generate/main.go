package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// The generated files, in package kernel.
const (
	assembly     = "loops_amd64.s"
	declarations = "loops_amd64.go"
)

func main() {
	folder := flag.String("folder", "..", "the folder of package kernel")
	flag.Parse()
	files, err := generate()
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(*folder, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// generate returns the texts of the generated files by name.
func generate() (map[string][]byte, error) {
	w := &writer{build.NewContext()}
	w.selections()
	for _, loop := range []func(){
		w.mulNarrow, w.crossNarrow, w.addResponses, w.cosineRows, w.crossSparseRow,
		w.addLeafRows, w.addLeafResiduals, w.addParts, w.reachNodes, w.meanOfNodes,
	} {
		loop()
	}
	file, err := w.Result()
	if err != nil {
		return nil, err
	}
	if err = pass.Compile.Execute(file); err != nil {
		return nil, err
	}
	config := printer.Config{Argv: []string{"go", "generate", "./internal/kernel"}, Pkg: "kernel"}
	files := map[string][]byte{}
	for name, p := range map[string]printer.Printer{assembly: printer.NewGoAsm(config), declarations: printer.NewStubs(config)} {
		if files[name], err = p.Print(file); err != nil {
			return nil, err
		}
	}
	return files, nil
}
