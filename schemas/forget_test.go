package schemas

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// placed is a row of the examples topic.
type placed struct {
	partition int
	offset    int64
	row       int
}

// eachRow is how many rows each message has in these tests.
const eachRow = 5

// placesOf returns the rows of a list, in messages with offsets below 12.
func placesOf(rows []coverage.ForgottenRows) map[placed]bool {
	all := map[placed]bool{}
	for _, r := range rows {
		for offset := r.From; offset < r.To; offset++ {
			first, end := r.First, r.End
			if end == 0 {
				end = eachRow
			}
			for row := first; row < end; row++ {
				all[placed{r.Partition, offset, row}] = true
			}
		}
	}
	return all
}

func drawForgotten(random *rand.Rand) (rows []coverage.ForgottenRows) {
	for range random.IntN(8) {
		r := coverage.ForgottenRows{Partition: random.IntN(2), From: random.Int64N(12)}
		r.To = r.From + 1
		if random.IntN(2) == 0 {
			r.To += random.Int64N(4)
		} else {
			r.First = random.IntN(eachRow)
			r.End = r.First + 1 + random.IntN(eachRow-r.First)
		}
		rows = append(rows, r)
	}
	return rows
}

// Sets of forgotten rows are what sets of rows are, whatever the order and the overlap of their parts.
func TestForgottenIsASetOfRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		a, b := drawForgotten(random), drawForgotten(random)
		f, g := coverage.Forgotten(nil).Union(a), coverage.Forgotten(nil).Union(b)
		if err := f.Check(); err != nil || !maps.Equal(placesOf(f), placesOf(a)) {
			t.Fatalf("%v became %v, %v", a, f, err)
		}
		both := placesOf(a)
		maps.Copy(both, placesOf(b))
		if union := f.Union(g); !maps.Equal(placesOf(union), both) || !union.Covers(f) || !union.Covers(g) {
			t.Fatalf("%v and %v are %v", f, g, union)
		}
		if f.Covers(g) && len(both) != len(placesOf(f)) {
			t.Fatalf("%v covers %v", f, g)
		}
		spans := coverage.Spans{{Partition: 0, From: 3, To: 6}, {Partition: 1, From: 0, To: 2}, {Partition: 1, From: 5, To: 9}}
		inside := placesOf(f)
		maps.DeleteFunc(inside, func(p placed, _ bool) bool {
			return p.partition == 0 && (p.offset < 3 || p.offset >= 6) || p.partition == 1 && (p.offset >= 2 && p.offset < 5 || p.offset >= 9)
		})
		if within := f.Within(spans); !maps.Equal(placesOf(within), inside) {
			t.Fatalf("%v within %v is %v", f, spans, within)
		}
		found := map[placed]bool{}
		for partition := range 3 {
			for offset := range int64(20) {
				f.In(partition, offset, eachRow, func(first, end int) {
					for row := first; row < end; row++ {
						if p := (placed{partition, offset, row}); found[p] {
							t.Fatalf("%v has %v twice", f, p)
						} else {
							found[p] = true
						}
					}
				})
			}
		}
		if !maps.Equal(found, placesOf(f)) {
			t.Fatalf("found %v in %v", found, f)
		}
	}
}

func TestImpossibleForgottenRowsAreDamaged(t *testing.T) {
	for _, rows := range []string{
		`{"partition":-1,"from":0,"to":1}`, `{"partition":0,"from":-1,"to":1}`, `{"partition":0,"from":1,"to":1}`,
		`{"partition":0,"from":0,"to":2,"first":1,"end":2}`,
		`{"partition":0,"from":0,"to":1,"first":2,"end":2}`, `{"partition":0,"from":0,"to":1,"first":2}`,
		`{"partition":0,"from":0,"to":1,"first":-1,"end":2}`, `{"partition":0,"from":0,"to":1,"end":-2}`,
		`{"partition":0,"from":1,"to":2},{"partition":0,"from":0,"to":1}`, `{"partition":0,"from":0,"to":2},{"partition":0,"from":1,"to":3}`,
	} {
		if f, err := DecodeJSON[Forget](wire.Message{Value: []byte(`{"rows":[` + rows + `]}`)}); err == nil {
			t.Errorf("%s became %+v", rows, f)
		}
	}
}
