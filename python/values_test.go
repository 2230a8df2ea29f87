//go:build python

package python

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stagewise/stagewise/schemas/value"
)

// The package reads numbers and words of columns of words as the program reads them.
func TestPythonReadsValuesAsGo(t *testing.T) {
	p, r := newPython(t), rand.New(rand.NewPCG(1, 3))
	texts := []string{
		"", " ", "1", "1.0", "1.00", "-1.0", "-0", "-0.0", "0", "1e0", "1E2", "1e-2", "15e-1", "1e400", "1e-400", "007", "00", "+1",
		"3.10", ".5", "5.", "-.5e3", "1e", "e1", ".", "-", "+", "--1", "1.0.0",
		"true", "True", "TRUE", "tRUE", "false", "False", "FALSE", "0x10", "1_000", "1,5", "inf", "-Infinity", "nan", "red", " red ",
		"12345678901234567890", "12345678901234567890.0", "9007199254740993.0",
		"9007199254740992e0", "1e15", "1e16", "1e17", "٣", "1 2", "½",
	}
	numbers := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, float64(float32(0.1)), 1.5, 123456.5, 1234567.5, 1e-4, 1e-5, 12345678.25,
		1 << 53, 1<<53 + 2, 1e300, -1e22, 5e-324, math.MaxFloat32}
	for range 500 {
		v := r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
		numbers = append(numbers, v, float64(float32(v)), math.Round(v))
		texts = append(texts, strconv.FormatFloat(v, "feg"[r.IntN(3)], r.IntN(20)-1, 64))
	}
	type word struct {
		Value  any      `json:"value"`
		Word   string   `json:"word"`
		Number *float64 `json:"number"` // null: it is none; of a text
	}
	var values []word
	for _, text := range texts {
		w := word{Value: text, Word: value.Word(text)}
		if v, err := value.Number(text); err == nil && v-v == 0 {
			w.Number = &v
		}
		values = append(values, w)
	}
	for _, v := range numbers {
		values = append(values, word{v, value.WordOf(v), &v})
	}
	for _, v := range []bool{true, false} {
		values = append(values, word{Value: v, Word: value.WordOfBoolean(v)})
	}
	content, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	p.write("values.json", string(content))
	var different []string
	if err := json.Unmarshal(p.run("tests/values.py", p.folder+"/values.json"), &different); err != nil {
		t.Fatal(err)
	}
	for _, d := range different {
		t.Error(d)
	}
}
