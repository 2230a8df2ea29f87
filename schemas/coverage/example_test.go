package coverage_test

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Adjacent spans become one. Spans that overlap are an error, as their sums would count examples twice.
func ExampleSpans_Union() {
	a := coverage.Spans{{Partition: 0, From: 0, To: 16}, {Partition: 1, From: 0, To: 4}}
	union, err := a.Union(coverage.Spans{{Partition: 0, From: 16, To: 20}})
	fmt.Println(union, err)
	_, err = a.Union(coverage.Spans{{Partition: 1, From: 3, To: 5}})
	fmt.Println(err)
	// Output:
	// [[0]@0–20 [1]@0–4] <nil>
	// spans [1]@0–4 and [1]@3–5 overlap
}

// Segments end at multiples of their length, wherever the span begins.
func ExampleSpan_Segments() {
	span := coverage.Span{Partition: 2, From: 10, To: 40}
	fmt.Println(span.Segments(16))
	// Output:
	// [[2]@10–16 [2]@16–32 [2]@32–40]
}
