package ingest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/wire"
)

// temporary writes a file for an example, which calls remove at its end.
func temporary(name, content string) (file string, remove func()) {
	folder, err := os.MkdirTemp("", "ingest")
	if err != nil {
		log.Fatal(err)
	}
	file = filepath.Join(folder, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		log.Fatal(err)
	}
	return file, func() { os.RemoveAll(folder) }
}

// Read a CSV in batches. Column 0 has the label.
func ExampleSource_Batches() {
	file, remove := temporary("fruit.csv", "apple,7,1\npear,8,3\nplum,4,2\n")
	defer remove()
	options := ingest.Defaults()
	options.Train, options.Label, options.BatchRows = []string{file}, "0", 2

	sources, err := ingest.Sources(context.Background(), options)
	if err != nil {
		log.Fatal(err)
	}
	for batch, err := range sources[0].Batches(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Words, batch.Floats)
	}
	// Output:
	// [apple pear] [7 1 8 3]
	// [plum] [4 2]
}

// List the sources of a configuration. The ID depends on the contents of the files and not on their names, so a source
// that was already published is recognised.
func ExampleSources() {
	options := ingest.Defaults()
	options.Train = []string{"../examples/digits/digits-train.csv.gz"}
	options.Test = []string{"../examples/digits/digits-test.csv.gz"}

	sources, err := ingest.Sources(context.Background(), options)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range sources {
		fmt.Println(s.Split, filepath.Base(s.Files[0]), s.Width, wire.Digest(s.ID).Short())
	}
	// Output:
	// train digits-train.csv.gz 64 724a0b99d628
	// test digits-test.csv.gz 64 be83a1727457
}

// Read rows to predict. The model determines the number of features, so a file may have the label or not.
func ExampleFile() {
	for _, content := range []string{"apple,7,1\n", "7,1\n"} {
		file, remove := temporary("fruit.csv", content)
		defer remove()
		for batch, err := range ingest.File(context.Background(), file, ingest.Defaults(), layout.Features{Width: 2}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(batch.Floats)
		}
	}
	// Output:
	// [7 1]
	// [7 1]
}
