package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// describe is the head of a run: what, where, and with which arithmetic.
func describe(w io.Writer, c *config.Config, blas *kernel.BLAS) {
	fmt.Fprintf(w, "%s on %s, %s\n", c.Name, whereabouts(c), blas.Name())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintln(w, hint)
	}
}

func whereabouts(c *config.Config) string {
	if len(c.Brokers) == 0 {
		return "the embedded broker in " + c.DataDir
	}
	words := []string{"Kafka at", strings.Join(c.Brokers, ", ")}
	if c.Security.TLS.Enabled {
		words = append(words, "by TLS")
	}
	if s := c.Security.SASL; s.Mechanism != "" {
		words = append(words, "as", s.Username, "by", s.Mechanism)
	}
	return strings.Join(words, " ")
}

// conclude is the end of a run: what it is worth, and where the model is.
func conclude(w io.Writer, file string, r *schemas.Report, report, model string) {
	if r.TestError != nil {
		fmt.Fprintf(w, "test error %s, train error %s, %.1f s\n", percent(r.TestError), percent(&r.TrainError), r.Seconds)
	} else {
		fmt.Fprintf(w, "train error %s, %.1f s\n", percent(&r.TrainError), r.Seconds)
	}
	fmt.Fprintf(w, "model: version %d on the topic %s.weights", r.Version, r.Name)
	if model != "" {
		fmt.Fprintf(w, ", and in %s", model)
	} else {
		fmt.Fprintf(w, " (stagewise weights export -c %s -o FILE)", file)
	}
	fmt.Fprintln(w)
	if report != "" && report != standard {
		fmt.Fprintf(w, "report: %s\n", report)
	}
}
