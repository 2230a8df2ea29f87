//go:build python

package python

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// The package predicts what `stagewise predict` predicts of sparse rows, which are counts of a LIBSVM file, and of
// texts, with every kind of features of sparse rows and every preparation of counts.
func TestPythonPredictsSparseRows(t *testing.T) {
	p := newPython(t)
	r := rand.New(rand.NewPCG(1, 2))
	var rows, texts strings.Builder
	texts.WriteString("kind,message\n")
	words := strings.Fields("Straße ΣΊΣΥΦΟΣ İstanbul naïve 東京 don't e-mail x²y 3D ͤa The the")
	for i := range 300 {
		class, column := i%3, 0
		fmt.Fprintf(&rows, "%d", 7+class)
		for range r.IntN(12) { // some rows are empty
			column += 1 + r.IntN(9)
			if column%3 == class || r.IntN(3) == 0 {
				fmt.Fprintf(&rows, " %d:%d", column, 1+r.IntN(5))
			}
		}
		rows.WriteByte('\n')
		fmt.Fprintf(&texts, "%c,\"", 'a'+class)
		for range r.IntN(9) {
			fmt.Fprint(&texts, words[(r.IntN(5)+4*class)%len(words)], []string{" ", ", ", "—", "\n"}[r.IntN(4)])
		}
		texts.WriteString("\"\n")
	}
	p.write("rows.libsvm", rows.String())
	p.write("texts.csv", texts.String())
	libsvm := options{"train": []string{"rows.libsvm"}, "format": "libsvm", "batch_rows": 16}
	columns := options{"features": options{"kind": stages.Columns}, "link": link.Identity}
	train := func(name string, o options) {
		p.configure(name, o)
		p.stagewise("train", "-c", name+".yaml", "--model", name+".model")
		input := "rows.libsvm"
		if strings.HasPrefix(name, "text") {
			input = "texts.csv"
		}
		p.stagewise("predict", "--model", name+".model", "-i", input, "-o", name+".csv")
		p.cases = append(p.cases, name)
	}
	for _, values := range []string{"none", "log1p", "sqrt", "binary"} {
		for _, scale := range []string{prepare.ScaleNone, prepare.ScaleUnit} {
			train(fmt.Sprintf("counts-%s-%s", values, scale), options{"examples": libsvm, "prepare": options{"values": values,
				"scale": scale, "idf": 1.5, "min_rows": 3}, "stages": []options{columns}})
		}
	}
	for _, kind := range []options{{"kind": stages.Gradient, "size": 5}, {"kind": stages.ClassCounts}, {"kind": stages.ClassCounts,
		"weight": 0.5}} {
		for _, last := range []string{link.Identity, link.Softmax} {
			train(fmt.Sprintf("kinds-%v-%d-%s", kind["kind"], len(kind), last), options{"examples": libsvm,
				"prepare": options{"values": "log1p", "scale": "unit"}, "stages": []options{columns, {"features": kind, "link": last, "passes": 9}}})
		}
	}
	for _, vocabulary := range []string{"hashed", "counted"} {
		for _, phrases := range []int{1, 2, 5} {
			words := options{"vocabulary": vocabulary, "columns": 1000, "phrases": phrases}
			train(fmt.Sprintf("texts-%s-%d", vocabulary, phrases), options{
				"examples": options{"train": []string{"texts.csv"}, "text": "message", "label": "kind", "words": words},
				"prepare":  options{"values": "log1p", "idf": 1, "scale": "unit"}, "stages": []options{columns}, "intercept": phrases > 1,
			})
		}
	}
	p.compare("tests/compare_sparse.py", 300)
}
