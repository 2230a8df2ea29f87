package coverage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// offsets is the oracle. It counts every (partition, offset) of a set of spans.
func offsets(spans Spans) map[[2]int64]int {
	set := map[[2]int64]int{}
	for _, s := range spans {
		for at := s.From; at < s.To; at++ {
			set[[2]int64{int64(s.Partition), at}]++
		}
	}
	return set
}

// scattered distributes n disjoint spans, some of them empty, over three sets.
func scattered(r *rand.Rand, n int) (sets [3]Spans) {
	var at [4]int64
	for range n {
		p := r.IntN(len(at))
		at[p] += int64(r.IntN(3)) // 0: adjacent to the previous span
		s := Span{p, at[p], at[p] + int64(r.IntN(5))}
		at[p] = s.To
		i := r.IntN(len(sets))
		sets[i] = append(sets[i], s)
	}
	for _, s := range sets {
		r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	}
	return sets
}

func TestUnionIsThatOfSets(t *testing.T) {
	for seed := range uint64(50) {
		for _, n := range append(assert.Sizes(), 200) {
			sets := scattered(rand.New(rand.NewPCG(seed, uint64(n))), n)
			a, b, c := sets[0], sets[1], sets[2]
			before := slices.Clone(a)

			ab := assert.Must(a.Union(b))(t)
			ba := assert.Must(b.Union(a))(t)
			assert.Need(t, slices.Equal(ab, ba), "%v ∪ %v = %v, the other way round %v", a, b, ab, ba)
			left := assert.Must(ab.Union(c))(t)
			right := assert.Must(a.Union(assert.Must(b.Union(c))(t)))(t)
			assert.Need(t, slices.Equal(left, right), "(a ∪ b) ∪ c = %v, a ∪ (b ∪ c) = %v", left, right)
			assert.Need(t, slices.Equal(a, before), "the argument became %v", a)
			again := assert.Must(left.Union(nil))(t)
			assert.Need(t, slices.Equal(again, left), "%v ∪ nothing = %v", left, again)

			want := offsets(slices.Concat(a, b, c))
			got := offsets(left)
			assert.Need(t, len(got) == len(want), "%d offsets of %d", len(got), len(want))
			for at, times := range got {
				assert.Need(t, times == 1 && want[at] == 1, "offset %v: %d times, expected %d", at, times, want[at])
			}
			for i := 1; i < len(left); i++ {
				x, y := left[i-1], left[i]
				assert.Need(t, x.Partition <= y.Partition && (x.Partition != y.Partition || x.To < y.From), "%v before %v", x, y)
			}
		}
	}
}

func TestUnionRefusesOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b Spans
		want string
	}{
		{Spans{{0, 0, 5}}, Spans{{0, 4, 6}}, "spans [0]@0–5 and [0]@4–6 overlap"},
		{Spans{{0, 0, 5}}, Spans{{0, 0, 7}}, "spans [0]@0–5 and [0]@0–7 overlap"},
		{Spans{{2, 3, 9}}, Spans{{2, 4, 5}, {1, 4, 5}}, "spans [2]@3–9 and [2]@4–5 overlap"},
		{Spans{{0, 0, 5}, {0, 1, 2}}, nil, "spans [0]@0–5 and [0]@1–2 overlap"},
	} {
		for _, pair := range [][2]Spans{{c.a, c.b}, {c.b, c.a}} {
			union, err := pair[0].Union(pair[1])
			assert.True(t, err != nil && err.Error() == c.want && union == nil,
				"%v ∪ %v = %v, %v; expected %s", pair[0], pair[1], union, err, c.want)
		}
	}
}

func TestSegmentsCoverAndCutAtMultiples(t *testing.T) {
	for _, length := range []int64{1, 2, 7, 64} {
		for from := range int64(140) {
			for _, n := range []int64{0, 1, 63, 64, 65, 130} {
				span := Span{3, from, from + n}
				at := from
				got, want := int64(len(span.Segments(length))), span.SegmentCount(length)
				assert.Need(t, got == want, "%d segments of %v, expected %d", got, span, want)
				for _, s := range span.Segments(length) {
					assert.Need(t, !s.Empty() && s.Partition == 3 && s.From == at && s.To <= span.To, "%v after offset %d of %v", s, at, span)
					assert.Need(t, (s.To == span.To || s.To%length == 0) && (s.To-1)/length == s.From/length,
						"%v of %v is not within a multiple of %d", s, span, length)
					at = s.To
				}
				assert.Need(t, at == span.To, "%v is covered up to %d", span, at)
			}
		}
	}
	for _, c := range []struct {
		span   Span
		length int64
	}{{Span{0, math.MaxInt64 - 5, math.MaxInt64}, 2}, {Span{0, 1<<62 + 1, math.MaxInt64}, 1 << 62}, {Span{0, 0, math.MaxInt64},
		math.MaxInt64}, {Span{0, 3, 3}, 1}} {
		at, segments := c.span.From, c.span.Segments(c.length)
		for _, s := range segments {
			assert.Need(t, s.From == at && !s.Empty(), "%v after offset %d of %v", s, at, c.span)
			at = s.To
		}
		assert.True(t, at == c.span.To && c.span.SegmentCount(c.length) == int64(len(segments)),
			"%v: %d segments to %d, expected %d", c.span, len(segments), at, c.span.SegmentCount(c.length))
	}
	assert.Equal(t, Span{0, 10, 100}.Segments(1<<62), []Span{{0, 10, 100}}, "one segment")
	defer func() {
		assert.Equal(t, fmt.Sprint(recover()), "schemas: a segment has 0 messages, expected at least 1", "")
	}()
	Span{0, 0, 1}.Segments(0)
}

// Whatever the order of the partitions, the first bad message is that of the lowest, and the numbers add up.
func TestBadMessages(t *testing.T) {
	var zero, one, two BadMessages
	one.Usable(2)
	one.Bad(0, 7, "early")
	one.Bad(0, 9, "late")
	two.Bad(1, 3, "other")
	for _, order := range [][]BadMessages{{zero, one, two}, {two, one, zero}} {
		var b BadMessages
		for _, o := range order {
			b.Merge(o)
		}
		want := (BadMessages{3, 5, 0, 7, "early"})
		assert.True(t, b == want && b.Most(), "%+v, most of them: %v, expected %+v", b, b.Most(), want)
	}
	assert.True(t, !zero.Most() && !one.Most() && two.Most(), "none of none, half, all: %v, %v, %v", zero.Most(), one.Most(), two.Most())
}
