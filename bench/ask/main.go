// Command ask sends the images of an idx file to a server of stagewise, batch after batch, and prints how many rows a
// second it answers, how long answers take, and how many requests failed:
//
//	stagewise serve --model mnist.model &
//	go run ./bench/ask -i t10k-images-idx3-ubyte -format arrow
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/serve"
)

// features is the number of pixels of an image.
const features = 28 * 28

func main() {
	url := flag.String("url", "http://127.0.0.1:8474/predict", "of the predictions")
	input := flag.String("i", "", "idx `file` of images of 28 × 28 pixels")
	format := flag.String("format", "json", "of the rows: json or arrow")
	rows := flag.Int("rows", 64, "rows in a request")
	connections := flag.Int("connections", 2, "how many ask at the same time")
	lasting := flag.Duration("for", 10*time.Second, "how long to ask")
	flag.Parse()
	if err := ask(*url, *input, *format, *rows, *connections, *lasting); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

// encodings are the content types of the formats, and how they have rows.
func encodings() map[string]encoding {
	return map[string]encoding{"json": {"application/json", asJSON}, "arrow": {"application/vnd.apache.arrow.stream", asArrow}}
}

type encoding struct {
	contentType string
	body        func(*examples.Rows) ([]byte, error)
}

// bodies returns the requests for the rows of a file.
func bodies(input string, rows int, e encoding) (list [][]byte, err error) {
	o := ingest.Defaults()
	o.BatchRows = rows
	for batch, err := range ingest.File(context.Background(), input, o, layout.Features{Width: features}) {
		if err != nil {
			return nil, err
		}
		if batch.Rows < rows {
			break // the last ones of the file
		}
		body, err := e.body(batch)
		if err != nil {
			return nil, err
		}
		list = append(list, body)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has less than %d images", input, rows)
	}
	return list, nil
}

func asJSON(batch *examples.Rows) ([]byte, error) {
	body := []byte(`{"rows": [`)
	for i, pixel := range batch.Bytes {
		switch {
		case i == 0:
			body = append(body, '[')
		case i%batch.Cols == 0:
			body = append(body, "], ["...)
		default:
			body = append(body, ", "...)
		}
		body = strconv.AppendInt(body, int64(pixel), 10)
	}
	return append(body, "]]}"...), nil
}

func asArrow(batch *examples.Rows) ([]byte, error) {
	floats := examples.Rows{Rows: batch.Rows, Cols: batch.Cols, Floats: make([]float32, len(batch.Bytes))}
	examples.FromBytes(floats.Floats, batch.Bytes)
	record := floats.Record(memory.DefaultAllocator)
	defer record.Release()
	return examples.Encode(record, memory.DefaultAllocator)
}

// seen is what one connection has seen.
type seen struct {
	took     []time.Duration
	failed   int
	versions map[string]bool
}

func ask(url, input, format string, rows, connections int, lasting time.Duration) error {
	e, known := encodings()[format]
	if !known {
		return fmt.Errorf("-format: %s: expected json or arrow", format)
	}
	list, err := bodies(input, rows, e)
	if err != nil {
		return err
	}
	each := make([]seen, connections)
	began := time.Now()
	var asking sync.WaitGroup
	for i := range each {
		asking.Go(func() {
			each[i].versions = map[string]bool{}
			for n := i; time.Since(began) < lasting; n++ {
				each[i].ask(url, e.contentType, list[n%len(list)])
			}
		})
	}
	asking.Wait()
	elapsed := time.Since(began)
	all := seen{versions: map[string]bool{}}
	for _, s := range each {
		all.took, all.failed = append(all.took, s.took...), all.failed+s.failed
		for v := range s.versions {
			all.versions[v] = true
		}
	}
	if len(all.took) == 0 {
		return fmt.Errorf("all %d requests failed", all.failed)
	}
	slices.Sort(all.took)
	fmt.Printf("%s: %.0f rows/s, median %.2f ms, p99 %.2f ms; %d requests, %d failed; %d versions answered\n", format,
		float64(len(all.took)*rows)/elapsed.Seconds(), milliseconds(all.took[len(all.took)/2]), milliseconds(all.took[len(all.took)*99/100]),
		len(all.took)+all.failed, all.failed, len(all.versions))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ask sends one request.
func (s *seen) ask(url, contentType string, body []byte) {
	began := time.Now()
	response, err := http.Post(url, contentType, bytes.NewReader(body))
	if err != nil {
		s.failed++
		return
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		s.failed++
		return
	}
	s.took = append(s.took, time.Since(began))
	s.versions[response.Header.Get(serve.HeaderVersion)] = true
}
