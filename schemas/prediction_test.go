package schemas

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestPredictionRoundTrip(t *testing.T) {
	for _, task := range []examples.Task{examples.OneLabel, examples.SeveralLabels, examples.Numbers} {
		for _, rows := range arrowtest.Sizes() {
			for _, classes := range []int{1, 2, 63, 64, 65} {
				mem := arrowtest.Allocator(t)
				want := predictionOf(task, rows, classes)
				if classes == 2 {
					want.Contributions = make([]string, rows)
				}
				for i := range want.Contributions {
					want.Contributions[i] = strings.Repeat("[]", i)
				}
				m := arrowtest.Must(want.Encode(mem))(t)
				got := arrowtest.Must(DecodePrediction(m, mem))(t)
				if rows == 0 {
					got.Probabilities, got.Numbers, want.Probabilities = nil, nil, nil
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("task %d, %d rows of %d classes became %v", task, rows, classes, got)
				}
				header := arrowtest.Must(PredictionHeader(m))(t)
				if m.Key != "digits.examples/3/1099511627776/128" || header.Version != 7 || header.Rows != 128+rows || header.Classes != nil {
					t.Errorf("key %s, header %v", m.Key, header)
				}
			}
		}
	}
}

func TestMaxPredictionRowsFit(t *testing.T) {
	for _, classes := range []int{1, 2, 3, 10, 1000, 20_000} {
		mem := arrowtest.Allocator(t)
		p := predictionOf(examples.OneLabel, 1, classes)
		for _, task := range []examples.Task{examples.OneLabel, examples.SeveralLabels, examples.Numbers} {
			for _, contributions := range []int{0, 1, 1000} {
				rows := MaxPredictionRows(task, p.Labels, contributions)
				p := predictionOf(task, rows, classes)
				if contributions > 0 {
					p.Contributions = slices.Repeat([]string{strings.Repeat("x", contributions)}, rows)
				}
				if m, err := p.Encode(mem); err != nil || len(m.Value) < wire.MaxMessage/4 {
					t.Errorf("task %d, %d rows of %d classes, contributions of %d bytes: %d bytes, %v", task, rows, classes, contributions,
						len(m.Value), err)
				}
			}
		}
	}
	long := predictionOf(examples.OneLabel, 1, 2)
	long.Labels[0] = strings.Repeat("x", wire.MaxMessage)
	_, err := long.Encode(arrowtest.Allocator(t))
	if want := "encode predictions of digits.examples[3]@1099511627776: 1 rows of 2 classes take 90"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}

func TestPredictionsThatAreRefused(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for _, c := range []struct{ key, value, want string }{
		{"kind", "residuals", `kind "residuals", expected "prediction"`},
		{"offset", "x", `header offset is "x", expected a whole number`},
		{"row", "-1", "header row is -1, expected at least 0"},
		{"row", "127", "2 predictions of rows 127 to 130"},
		{"row", "131", "rows 131 to 130 of 130"},
		{"until", "131", "rows 128 to 131 of 130"},
		{"rows", "129", "rows 128 to 130 of 129"},
		{"offset", "7", "row 128 of offset 7 after offset 1099511627776"},
		{"after", "7", "row 128 of offset 1099511627776 after offset 7"},
		{"run", strings.Repeat("x", 129), "a run or checksum of 129 bytes"},
		{"generation", "-1", "header generation is -1, expected at least 0"},
		{"lost", "true", "row 128 begins generation 2"},
	} {
		p := predictionOf(examples.OneLabel, 2, 3)
		p.Generation = 2
		m := arrowtest.Must(p.Encode(mem))(t)
		m.Headers = append(m.Headers, wire.Header{Key: "lost", Value: ""})
		for i, h := range m.Headers {
			if h.Key == c.key {
				m.Headers[i].Value = c.value
			}
		}
		if _, err := DecodePrediction(m, mem); !errors.Is(err, wire.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, expected %q", c.key, c.value, err, c.want)
		}
	}
	other := arrowtest.Must(residualsOf(2, 3).Encode(mem))(t)
	m := arrowtest.Must(predictionOf(examples.OneLabel, 2, 3).Encode(mem))(t)
	m.Value = other.Value
	if _, err := DecodePrediction(m, mem); !errors.Is(err, wire.ErrDamaged) || !strings.Contains(err.Error(), "schema") {
		t.Error(err)
	}
}
