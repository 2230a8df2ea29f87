package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
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

// Check options before any file is opened. All problems are reported at once.
func ExampleOptions_Check() {
	options := ingest.Defaults()
	options.Train = []string{"images-idx3-ubyte"}
	options.Holdout = 1

	for _, problem := range options.Check() {
		fmt.Println(problem)
	}
	// Output:
	// holdout: 1: expected a fraction, at least 0 and less than 1
	// train: [images-idx3-ubyte]: expected idx files in pairs, images first, then their labels
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

// A FileError includes the position in a file.
func ExampleFile_error() {
	file, remove := temporary("fruit.csv", "apple,7,1\npear,eight,3\n")
	defer remove()
	for _, err := range ingest.File(context.Background(), file, ingest.Defaults(), layout.Features{Width: 2}) {
		if wrong, ok := errors.AsType[*input.Error](err); ok {
			fmt.Println(filepath.Base(wrong.File), "line", wrong.Line, "column", wrong.Column)
			fmt.Println(wrong.Err)
		}
	}
	// Output:
	// fruit.csv line 2 column 1
	// "eight" is not a number
}

// topic stands in for the examples topic. Its partitions are written concurrently, each by one goroutine.
type topic struct {
	mutex      sync.Mutex
	partitions map[int][]wire.Message
}

// write is an ingest.Appender.
func (t *topic) write(_ context.Context, partition int, messages ...wire.Message) (int64, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	offset := int64(len(t.partitions[partition]))
	t.partitions[partition] = append(t.partitions[partition], messages...)
	return offset, nil
}

// publish publishes three messages to a topic with two partitions.
func publish(t *topic) *schemas.SourceSeal {
	file, remove := temporary("fruit.csv", "apple,7,1\npear,8,3\nplum,4,2\n")
	defer remove()
	options := ingest.Defaults()
	options.Train, options.Label, options.BatchRows, options.Partitions = []string{file}, "0", 1, 2
	sources, err := ingest.Sources(context.Background(), options)
	if err != nil {
		log.Fatal(err)
	}
	attempt := ingest.Attempt{ID: "1", Spans: []coverage.Span{{Partition: 0}, {Partition: 1}}}
	seal, err := ingest.Publish(context.Background(), sources[0], attempt, t.write, memory.DefaultAllocator,
		func(int64) {}, func(map[string]int64) {})
	if err != nil {
		log.Fatal(err)
	}
	return seal
}

// Publish a source to a topic with two partitions. The seal has the positions of its messages; they count once the seal is
// published too.
func ExamplePublish() {
	t := &topic{partitions: map[int][]wire.Message{}}
	seal := publish(t)
	fmt.Println(seal.Rows, "rows in", seal.Messages, "messages:", seal.Spans)
	for _, m := range t.partitions[0] {
		origin, _ := schemas.OriginOf(m)
		fmt.Println("partition 0: sequence", origin.Sequence)
	}
	// Output:
	// 3 rows in 3 messages: [[0]@0–2 [1]@0–1]
	// partition 0: sequence 0
	// partition 0: sequence 2
}

// Decide which messages of a partition count. A duplicate counts once, and a missing message is an error at the end.
func Example_replay() {
	t := &topic{partitions: map[int][]wire.Message{}}
	plan := &schemas.Plan{Sources: []schemas.SourceSeal{*publish(t)}, Spans: coverage.Spans{{Partition: 0, To: 2}, {Partition: 1, To: 1}}}

	first := t.partitions[0][0]
	replay := protocol.NewCounting(plan).Replay(plan.Spans[0])
	fmt.Printf("%q %q\n", replay.Accept(first), replay.Accept(first))
	_, err := replay.Complete()
	if lost, ok := errors.AsType[*protocol.IncompleteSourceError](err); ok {
		fmt.Println("partition", lost.Partition, "has", lost.Have, "of", lost.Want, "messages")
	}
	// Output:
	// "" "repeated"
	// partition 0 has 1 of 2 messages
}
