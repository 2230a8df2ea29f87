package schemas

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
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
		err := f.Check()
		assert.Need(t, err == nil && maps.Equal(placesOf(f), placesOf(a)), "%v became %v, %v", a, f, err)
		both := placesOf(a)
		maps.Copy(both, placesOf(b))
		union := f.Union(g)
		assert.Need(t, maps.Equal(placesOf(union), both) && union.Covers(f) && union.Covers(g), "%v and %v are %v", f, g, union)
		assert.Need(t, !f.Covers(g) || len(both) == len(placesOf(f)), "%v covers %v", f, g)
		spans := coverage.Spans{{Partition: 0, From: 3, To: 6}, {Partition: 1, From: 0, To: 2}, {Partition: 1, From: 5, To: 9}}
		inside := placesOf(f)
		maps.DeleteFunc(inside, func(p placed, _ bool) bool {
			return p.partition == 0 && (p.offset < 3 || p.offset >= 6) || p.partition == 1 && (p.offset >= 2 && p.offset < 5 || p.offset >= 9)
		})
		within := f.Within(spans)
		assert.Need(t, maps.Equal(placesOf(within), inside), "%v within %v is %v", f, spans, within)
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
		assert.Need(t, maps.Equal(found, placesOf(f)), "found %v in %v", found, f)
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
		f, err := DecodeJSON[Forget](wire.Message{Value: []byte(`{"rows":[` + rows + `]}`)})
		assert.True(t, err != nil, "%s became %+v", rows, f)
	}
}

// scoring is a process that predicts messages of the topic, divided into parts of its own size.
type scoring struct {
	state Scored // up to seen
	seen  int64
	most  int // rows per part
}

// read applies the messages on the topic.
func (w *scoring) read(topic []*Prediction) {
	for _, p := range topic[w.seen:] {
		w.state.Count(p)
	}
	w.seen = int64(len(topic))
}

// predictions returns the predictions of some messages from the writer's position; if lost is at least 0, those of the
// next generation, from that offset on. rows has the numbers of rows of messages; −1: the offset has none.
func (w *scoring) predictions(rows []int, messages int, lost int64) (list []*Prediction) {
	state := w.state
	if lost >= 0 {
		state = Scored{Next: lost, Generation: state.Generation}
	}
	next, row := state.Next, state.Row
	for ; messages > 0 && int(next) < len(rows); next, row = next+1, 0 {
		n := rows[next]
		if n < 0 {
			continue
		}
		messages--
		for from := row; from < n || from == row; from += w.most {
			p := &Prediction{Offset: next, After: state.Next, Row: from, Until: min(from+w.most, n), Rows: n, Seen: w.seen,
				Generation: state.Generation}
			if lost >= 0 {
				p.Generation, p.Lost, lost = p.Generation+1, true, -1
			}
			state.Count(p)
			list = append(list, p)
		}
	}
	return list
}

// lostFrom returns an offset from which a writer finds that messages with predictions are lost; −1 if there is none, or
// the number of losses is exhausted.
func lostFrom(random *rand.Rand, w *scoring, losses *int) int64 {
	if *losses == 0 || w.state.Next == 0 || random.IntN(5) > 0 {
		return -1
	}
	*losses--
	return random.Int64N(w.state.Next)
}

// Whatever several processes write, with parts of different sizes, and wherever they stop, each row has exactly one valid
// prediction, in message order. A later process finds the position from the last messages alone.
func TestEachRowHasOnePrediction(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		rows := make([]int, 1+random.IntN(12))
		for i := range rows {
			rows[i] = random.IntN(9) - 1
		}
		var topic []*Prediction
		writers := make([]*scoring, 1+random.IntN(4))
		for i := range writers {
			writers[i] = &scoring{most: 1 + random.IntN(5)}
		}
		var state Scored
		losses := random.IntN(4)
		done := func() bool {
			for i := int(state.Next); i < len(rows); i++ {
				if rows[i] >= 0 {
					return false
				}
			}
			return true
		}
		for counted := 0; !done(); {
			w := writers[random.IntN(len(writers))]
			switch random.IntN(4) {
			case 0: // another process replaces it, and reads what it must
				from := int64(0)
				if len(topic) > 0 {
					from = topic[len(topic)-1].Seen
				}
				*w = scoring{state: ScoredBy(topic[from:]), seen: int64(len(topic)), most: 1 + random.IntN(5)}
				assert.Need(t, w.state == state, "seed %d: of %d messages the last ones say %+v, all of them %+v", seed, len(topic), w.state, state)
			case 1:
				w.read(topic)
			default: // it writes, possibly only a part: after and between messages of others that it has not seen
				list := w.predictions(rows, 1+random.IntN(3), lostFrom(random, w, &losses))
				another := writers[random.IntN(len(writers))]
				other := another.predictions(rows, 1+random.IntN(3), lostFrom(random, another, &losses))
				list, other = list[:len(list)-random.IntN(len(list)+1)], other[:len(other)-random.IntN(len(other)+1)]
				for len(list)+len(other) > 0 {
					from := &list
					if len(list) == 0 || len(other) > 0 && random.IntN(2) == 0 {
						from = &other
					}
					topic, *from = append(topic, (*from)[0]), (*from)[1:]
				}
				if random.IntN(5) > 0 {
					w.read(topic)
				}
			}
			for ; counted < len(topic); counted++ {
				before, p := state, topic[counted]
				if !state.Count(p) {
					continue
				}
				if p.Lost {
					before = Scored{Next: p.After}
				}
				if before.Row > 0 && (p.Offset != before.Next || p.Row != before.Row) || before.Row == 0 && p.Row > 0 {
					t.Fatalf("seed %d: after %+v counts %+v", seed, before, p)
				}
				for i := before.Next; i < p.Offset; i++ {
					assert.Need(t, rows[i] < 0, "seed %d: message %d is passed over", seed, i)
				}
			}
		}
	}
}

// A prediction with the reason why the rest of a message has none completes that message.
func TestReasonEndsAMessage(t *testing.T) {
	s := Scored{Next: 4, Row: 2}
	assert.True(t, !s.Count(&Prediction{Offset: 5, After: 5}) &&
		s.Count(&Prediction{Offset: 4, After: 4, Row: 2, Until: 2, Rows: 9, Reason: "deleted"}) && s == (Scored{Next: 5}), "%+v", s)
}

func TestResidualsRoundTrip(t *testing.T) {
	for _, rows := range assert.Sizes() {
		for _, classes := range []int{1, 2, 63, 64, 65} {
			mem := assert.Allocator(t)
			want := residualsOf(rows, classes)
			m := assert.Must(want.Encode(mem))(t)
			for _, want := range []*Residuals{want, votedOf(rows, classes)} {
				got := assert.Must(DecodeResiduals(assert.Must(want.Encode(mem))(t), classes, mem))(t)
				assert.True(t, got.Identity == want.Identity && got.Offset == want.Offset && got.Row == want.Row && got.Classes == classes &&
					slices.Equal(got.Score, want.Score) && slices.Equal(got.Residual, want.Residual) && slices.Equal(got.Votes, want.Votes),
					"%d rows of %d classes became %v", rows, classes, got.Identity)
			}
			header := assert.Must(ResidualsHeader(m))(t)
			assert.True(t, m.Key == "run/residuals/1/0/3/1099511627776/128" && header.Identity == want.Identity && header.Row == 128 &&
				header.Score == nil, "key %s, header %v", m.Key, header)
		}
	}
}

func TestMaxResidualRowsFit(t *testing.T) {
	for _, classes := range []int{1, 2, 3, 10, 1000, 100_000} {
		mem := assert.Allocator(t)
		for values, of := range map[int]func(rows, classes int) *Residuals{2 * classes: residualsOf, 3 * classes: votedOf} {
			rows := MaxResidualsRows(values)
			if rows == 1 && 4*values > wire.MaxMessage {
				continue // a row of so many values fits no message
			}
			m, err := of(rows, classes).Encode(mem)
			assert.True(t, err == nil && len(m.Value) <= wire.MaxMessage, "%d rows of %d values: %d bytes, %v", rows, values, len(m.Value), err)
		}
	}
	_, err := residualsOf(2, 100_000).Encode(assert.Allocator(t))
	want := "encode residuals of offset 1099511627776: 2 rows of 100000 classes take 16"
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "%v", err)
}

// setHeader gives a header of a message, if it has it, another value.
func setHeader(m wire.Message, key, value string) {
	if i := slices.IndexFunc(m.Headers, func(h wire.Header) bool { return h.Key == key }); i >= 0 {
		m.Headers[i].Value = value
	}
}

func TestResidualsThatAreRefused(t *testing.T) {
	mem := assert.Allocator(t)
	for _, c := range []struct {
		key, value, want string
		classes          int
	}{
		{"kind", "examples", `kind "examples", expected "residuals"`, 2},
		{"offset", "x", `header offset is "x", expected a whole number`, 2},
		{"row", "", `header row is "", expected a whole number`, 2},
		{"row", "-1", `header row is -1, expected at least 0`, 2},
		{"visit", "?", `header visit is "?", expected a whole number`, 2},
		{"run", "run", "schema " + wire.Fingerprint(residualsSchema(2, false)) + ", expected 34f757966fbe", 3},
	} {
		m := assert.Must(residualsOf(4, 2).Encode(mem))(t)
		setHeader(m, c.key, c.value)
		_, err := DecodeResiduals(m, c.classes, mem)
		assert.True(t, errors.Is(err, wire.ErrDamaged) && strings.HasPrefix(err.Error(), "damaged or foreign bytes: "+c.want),
			"%v, expected %s", err, c.want)
	}
}

func TestResidualsRefuseRaggedRows(t *testing.T) {
	for _, r := range []Residuals{
		{Classes: 2, Score: make([]float32, 4), Residual: make([]float32, 2)},
		{Classes: 3, Score: make([]float32, 4), Residual: make([]float32, 4)},
		{},
	} {
		func() {
			defer func() {
				got := fmt.Sprint(recover())
				assert.True(t, strings.HasPrefix(got, "residuals: "), "%v: %s", r, got)
			}()
			r.Encode(nil)
		}()
	}
}

func TestPredictionRoundTrip(t *testing.T) {
	for _, task := range []examples.Task{examples.OneLabel, examples.SeveralLabels, examples.Numbers} {
		for _, rows := range assert.Sizes() {
			for _, classes := range []int{1, 2, 63, 64, 65} {
				mem := assert.Allocator(t)
				want := predictionOf(task, rows, classes)
				if classes == 2 {
					want.Contributions = make([]string, rows)
				}
				for i := range want.Contributions {
					want.Contributions[i] = strings.Repeat("[]", i)
				}
				m := assert.Must(want.Encode(mem))(t)
				got := assert.Must(DecodePrediction(m, mem))(t)
				if rows == 0 {
					got.Probabilities, got.Numbers, want.Probabilities = nil, nil, nil
				}
				assert.Equal(t, got, want, "task %d, %d rows of %d classes", task, rows, classes)
				header := assert.Must(PredictionHeader(m))(t)
				assert.True(t, m.Key == "digits.examples/3/1099511627776/128" && header.Version == 7 && header.Rows == 128+rows &&
					header.Classes == nil, "key %s, header %v", m.Key, header)
			}
		}
	}
}

func TestMaxPredictionRowsFit(t *testing.T) {
	for _, classes := range []int{1, 2, 3, 10, 1000, 20_000} {
		mem := assert.Allocator(t)
		p := predictionOf(examples.OneLabel, 1, classes)
		for _, task := range []examples.Task{examples.OneLabel, examples.SeveralLabels, examples.Numbers} {
			for _, contributions := range []int{0, 1, 1000} {
				rows := MaxPredictionRows(task, p.Labels, contributions)
				p := predictionOf(task, rows, classes)
				if contributions > 0 {
					p.Contributions = slices.Repeat([]string{strings.Repeat("x", contributions)}, rows)
				}
				m, err := p.Encode(mem)
				assert.True(t, err == nil && len(m.Value) >= wire.MaxMessage/4,
					"task %d, %d rows of %d classes, contributions of %d bytes: %d bytes, %v", task, rows, classes, contributions, len(m.Value), err)
			}
		}
	}
	long := predictionOf(examples.OneLabel, 1, 2)
	long.Labels[0] = strings.Repeat("x", wire.MaxMessage)
	_, err := long.Encode(assert.Allocator(t))
	want := "encode predictions of digits.examples[3]@1099511627776: 1 rows of 2 classes take 90"
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "%v", err)
}

func TestPredictionsThatAreRefused(t *testing.T) {
	mem := assert.Allocator(t)
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
		m := assert.Must(p.Encode(mem))(t)
		m.Headers = append(m.Headers, wire.Header{Key: "lost", Value: ""})
		setHeader(m, c.key, c.value)
		_, err := DecodePrediction(m, mem)
		assert.True(t, errors.Is(err, wire.ErrDamaged) && strings.Contains(err.Error(), c.want),
			"%s %s: %v, expected %q", c.key, c.value, err, c.want)
	}
	other := assert.Must(residualsOf(2, 3).Encode(mem))(t)
	m := assert.Must(predictionOf(examples.OneLabel, 2, 3).Encode(mem))(t)
	m.Value = other.Value
	assert.MustFail(DecodePrediction(m, mem))(t, wire.ErrDamaged, "schema")
}
