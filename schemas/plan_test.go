package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func plan() *Plan {
	header := true
	seal := SourceSeal{ID: "source", Attempt: "1", Files: []string{"train.csv"}, Split: "train", Partitions: 2, Messages: 3, Rows: 130,
		Spans: coverage.Spans{{Partition: 0, From: 0, To: 2}, {Partition: 1, From: 0, To: 1}}}
	return &Plan{
		Name: "digits", Spans: coverage.Spans{{Partition: 0, From: 0, To: 2}, {Partition: 1, From: 0, To: 1}},
		Sources: []SourceSeal{seal}, Removed: []string{"removed/1"}, Expiring: coverage.Spans{{Partition: 1, From: 3, To: 6}},
		Topic: "images.examples", Outside: coverage.Spans{{Partition: 1, From: 6, To: 8}},
		Input: Input{
			Format: "csv", Label: "y", Weight: "w", LabelColumns: []string{"l"}, Header: &header, Delimiter: ";", Use: []string{"x", "z"},
			Drop: []string{"id"}, Categorical: []string{"z"},
			MissingValues: []string{"?"},
		},
		Classes: []string{"a", "<b>"}, Targets: []string{"x"}, Labels: LabelsSeveral, ClassWeight: ClassWeight{By: map[string]float64{"a": 2}},
		Threshold: ThresholdRule{At: 0.25},
		Augment:   Augment{Mirror: true, Shift: 1}, Missing: "mean", Holdout: 0.125, OnBadMessage: "quarantine",
		Prepare: Prepare{Scale: "standard", PCA: 2},
		Stages: []Stage{{
			Features: Features{Kind: "rff", Size: 64, BandwidthScale: 2}, Link: "softmax", Passes: 3, Ridge: 1e-7,
			Method: "paper", GramRows: "all", Scores: true, Stop: &Stop{Split: "holdout", Patience: 2},
		}},
		Intercept: true, Seed: 1<<64 - 1, Segment: 64, Arithmetic: Arithmetic{Numerics: "1", Processor: "amd64", BLAS: "blas", Vector: "avx2"},
		Warm: &Warm{Run: "before", Manifest: "digest"}, Trigger: true, Submission: "drawn", Since: Since{Plans: 4, Weights: 5,
			Statistics: []int64{6, 7}},
	}
}

// leaves calls with for every value within v, with its path.
func leaves(v reflect.Value, at string, with func(at string, leaf reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), at+"."+v.Type().Field(i).Name, with)
		}
	case reflect.Pointer:
		leaves(v.Elem(), at, with)
	case reflect.Array:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", at, i), with)
		}
	case reflect.Slice:
		leaves(v.Index(0), at+"[0]", with)
		with(at, v)
	default:
		with(at, v)
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() - 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, v.Index(0)))
	case reflect.Map:
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	default:
		panic(v.Kind())
	}
}

func TestRunDependsOnAllButSince(t *testing.T) {
	plan := func() *Plan {
		p := updatePlan()
		p.Chain.Increments, p.Chain.Parent = updatePlan().Chain.Update.Leave, updatePlan().Warm
		p.Input.Vocabulary, p.Input.Times = []string{"word"}, map[string][]string{"at": {"hour"}}
		p.Input.Hash, p.Input.FirstIndex = &Hash{Columns: 8, Cross: [][]string{{"a", "b"}}}, new(int64)
		p.Chain.Had = 9
		for t := range p.Stages {
			p.Stages[t].Basis, p.Stages[t].Drawn = []int{1, 3}, []Draw{{Stage: 0, Size: 4}}
		}
		p.Heeded = &Heeded{Entries: 1, Last: "forget/0123456789ab"}
		return p
	}
	before, seen := plan(), 0
	var paths []string
	leaves(reflect.ValueOf(plan()), "", func(at string, _ reflect.Value) { paths = append(paths, at) })
	for _, path := range paths {
		after := plan()
		leaves(reflect.ValueOf(after), "", func(at string, leaf reflect.Value) {
			if at == path {
				change(leaf)
				seen++
			}
		})
		since, submission := strings.HasPrefix(path, ".Since"), path == ".Submission"
		same := before.Content() == after.Content()
		assert.True(t, same == (since || submission), "%s: the same content: %v", path, same)
		same = before.Run() == after.Run()
		assert.True(t, same == since, "%s: the same run: %v", path, same)
	}
	assert.True(t, seen == len(paths) && seen >= 50, "%d of %d fields", seen, len(paths))
}

func TestDigestLeavesThePlanAlone(t *testing.T) {
	p := plan()
	p.Sources[0].Spans = coverage.Spans{}
	p.Digest()
	assert.True(t, p.Sources[0].Spans != nil && p.Submission == "drawn" && p.Since.Weights == 5, "Digest changes the plan")
	q := plan()
	q.Sources[0].Spans = nil
	assert.Equal(t, p.Digest(), q.Digest(), "nil and empty spans give different digests")
	p.Sources, p.Spans, p.Stages = nil, nil, nil
	q.Sources, q.Spans, q.Stages = []SourceSeal{}, coverage.Spans{}, []Stage{}
	assert.Equal(t, p.Run(), q.Run(), "nil and empty lists give different runs")
}

func TestJSONThatIsRefused(t *testing.T) {
	plans := func(content string) error {
		_, err := DecodeJSON[Plan](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "plan"}}, Value: []byte(content)})
		return err
	}
	seals := func(content string) error {
		_, err := DecodeJSON[SourceSeal](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "source"}}, Value: []byte(content)})
		return err
	}
	manifests := func(content string) error {
		_, err := DecodeJSON[Manifest](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "manifest"}}, Value: []byte(content)})
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{plans(``), `plan "k": unexpected end of JSON input`},
		{plans(`{"segment":"x"}`), `plan "k": json: cannot unmarshal string into Go struct field Plan.segment of type int64`},
		{plans(`{"segment":1} x`), `plan "k": invalid character 'x' after top-level value`},
		{plans(`null`), `plan "k": segment is 0, expected at least 1`},
		{plans(`{"segment":-1}`), `plan "k": segment is -1, expected at least 1`},
		{plans(`{"segment":1,"spans":[{"from":0,"to":2},{"from":1,"to":2}]}`), `plan "k": spans [0]@0–2 and [0]@1–2 overlap`},
		{plans(`{"segment":1,"spans":[{"from":-1,"to":2}]}`), `plan "k": span [0]@-1–2: expected a partition below 1048576, and offsets of at least 0`},
		{plans(`{"segment":1,"sources":[{}]}`), `plan "k": partitions is 0, expected at least 1`},
		{plans(`{"segment":1,"classes":["a","b","a"]}`), `plan "k": label "a" occurs twice`},
		{plans(`{"segment":1,"spans":[{"to":1152921504606846976}]}`), `plan "k": more than 2097152 segments of 1 messages: make segments longer`},
		{plans(`{"segment":9,"spans":[{"to":18874368},{"partition":1,"to":1}]}`), `plan "k": more than 2097152 segments of 9 messages: make segments longer`},
		{plans(`{"segment":1,"seed":` + strings.Repeat("9", 300) + `}`), `plan "k": json: cannot unmarshal number ` + strings.Repeat("9", 300) + ` into Go struct field Plan.seed of type uint64`},
		{plans(strings.Repeat("[", 100_000)), `plan "k": invalid character '[' exceeded max depth`},
		{seals(`{"spans":[` + strings.Repeat(`{},`, 300_000) + `{}]}`), `source "k": 900014 bytes, expected at most 900000`},
		{plans(strings.Repeat(" ", wire.MaxDocument+1)), `plan "k": 67108865 bytes, expected at most 67108864`},
		{seals(`{}`), `source "k": partitions is 0, expected at least 1`},
		{seals(`{"partitions":1,"spans":[{"partition":-1}]}`), `source "k": span [-1]@0–0: expected a partition below 1048576, and offsets of at least 0`},
		{manifests(`{}`), `manifest "k": the manifest has no plan`},
		{manifests(`{"plan":{}}`), `manifest "k": segment is 0, expected at least 1`},
	} {
		assert.True(t, errors.Is(c.err, wire.ErrDamaged) && c.err.Error() == "damaged or foreign bytes: decode "+c.want,
			"%v, expected %s", c.err, c.want)
	}
}

// A process works on a run of its own arithmetic, and of any other if the plan says so and the numeric code is the same.
func TestArithmeticAdmits(t *testing.T) {
	here := Arithmetic{Numerics: "1", Processor: "amd64", BLAS: "OpenBLAS", Vector: "avx2"}
	for _, test := range []struct {
		change func(*Arithmetic)
		want   bool
	}{
		{func(*Arithmetic) {}, true},
		{func(a *Arithmetic) { a.BLAS = "gonum" }, false},
		{func(a *Arithmetic) { a.Processor = "arm64" }, false},
		{func(a *Arithmetic) { a.Any, a.BLAS, a.Vector, a.Processor = true, "gonum", "", "arm64" }, true},
		{func(a *Arithmetic) { a.Any, a.Numerics = true, "2" }, false},
	} {
		plan := here
		test.change(&plan)
		assert.Equal(t, plan.Admits(here), test.want, "%+v admits %+v", plan, here)
	}
}

// A plan has as many stages of each member, one member after the other.
func TestMembers(t *testing.T) {
	p := plan()
	p.Stages = slices.Repeat(p.Stages, 6)
	for _, average := range []int{-1, 1, 4, 7} {
		p.Average = average
		assert.True(t, p.Check() != nil, "six stages of %d members are a plan", average)
	}
	for average, want := range map[int][3][]int{ // where members begin, where they end, and after which stages some have voted
		0: {{0}, {5}, nil},
		2: {{0, 3}, {2, 5}, {2, 3, 4, 5}},
		6: {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}},
	} {
		p.Average = average
		assert.True(t, p.Check() == nil, "six stages of %d members are no plan", average)
		var got [3][]int
		for s := range p.Stages {
			for i, holds := range []bool{p.BeginsMember(s), p.EndsMember(s), p.Votes(s)} {
				if holds {
					got[i] = append(got[i], s)
				}
			}
			first := want[0][p.Member(s)]
			assert.True(t, s >= first && s < first+p.MemberStages(), "average %d: stage %d is of member %d", average, s, p.Member(s))
		}
		for i := range got {
			assert.True(t, slices.Equal(got[i], want[i]), "average %d: %v, expected %v", average, got, want)
		}
	}
}

// The increments that were visited least recently are visited, one that is joined only if its rows are few.
func TestLongest(t *testing.T) {
	w := &Window{}
	for number := 1; number <= 4; number++ {
		w.Increments = append(w.Increments, WindowIncrement{Visited: 5 - number,
			Increment: coverage.Increment{Number: number, Weight: 1, Covered: []coverage.Coverage{{Rows: 10}}}})
	}
	w.Increments[2].Increment.Joined, w.Increments[2].Increment.Covered[0].Rows = 3, 30
	for _, test := range []struct {
		n    int
		rows int64
		want string
	}{{0, 10, "[]"}, {1, 10, "[4]"}, {2, 10, "[4 2]"}, {3, 10, "[4 2 1]"}, {4, 10, "[4 3]"}, {5, 10, "[4 3 2]"}, {2, 20, "[4 3]"}} {
		numbers := []int{}
		for _, c := range w.Longest(test.n, test.rows) {
			numbers = append(numbers, c.Increment.Number)
		}
		assert.Equal(t, fmt.Sprint(numbers), test.want, "%d increments of %d rows", test.n, test.rows)
	}
}

// numberedIncrement is what a run of a chain adds that has ten messages of each partition.
func numberedIncrement(number, partitions int) WindowIncrement {
	c := coverage.Increment{Number: number, Weight: 1, Forgotten: 7}
	for p := range partitions {
		from := int64(1_000_000 + 10*number)
		c.Covered = append(c.Covered, coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: from, To: from + 10}}, Messages: 10,
			Rows: 100, Checksum: 1<<63 + uint64(number)})
	}
	terms := StatePlace{Run: fmt.Sprintf("%012x", number), From: int64(number), To: int64(number) + 4, Index: 2}
	c.Until = 1_764_000_000_000 + int64(number)
	return WindowIncrement{Increment: c, Visited: number, Fitted: 90, Messages: 10, Terms: terms}
}

// What increments have is what they have once they are one. Neighbours that can't be one stay apart.
func TestJoinedIncrementsHaveWhatTheyHad(t *testing.T) {
	w := &Window{}
	for number := 1; number <= 6; number++ {
		w.Increments = append(w.Increments, numberedIncrement(number, 3))
	}
	w.Increments[2].Increment.Skipped = coverage.Spans{{Partition: 1, From: 1_000_031, To: 1_000_032}}
	w.Increments[0].Increment.Weight = 0.5
	rows, before := w.Rows(), slices.Clone(w.Increments)
	w.Increments = w.Shortened(4, 1<<20)
	want := WindowIncrement{Increment: coverage.Increment{Number: 2, Weight: 1, Forgotten: 21, Joined: 3, Skipped: before[2].Increment.Skipped,
		Until: before[3].Increment.Until}, Visited: 2, Fitted: 270, Messages: 30, Terms: before[1].Terms}
	for p := range 3 {
		want.Increment.Covered = append(want.Increment.Covered, coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: 1_000_020,
			To: 1_000_050}}, Messages: 30, Rows: 300, Checksum: 1<<63 + 9})
	}
	assert.True(t, len(w.Increments) == 3 && reflect.DeepEqual(w.Increments[1], want) && w.Rows() == rows,
		"joined %+v, expected %+v; %d rows, expected %d", w.Increments[1], want, w.Rows(), rows)
}

// The JSON of a window is no longer than Bytes says, and that of as many increments as may be has room in a document, with its plan.
func TestWindowsHaveRoomInDocuments(t *testing.T) {
	for _, partitions := range []int{1, 4, 100, 1000} {
		w := &Window{Run: "0123456789ab"}
		for number := 100_000; w.Bytes() <= WindowBytes; number++ {
			for range max(1000/partitions, 1) {
				w.Increments = append(w.Increments, numberedIncrement(number, partitions))
			}
		}
		n := int64(len(wire.JSON(w)))
		assert.True(t, n <= w.Bytes() && 2*n <= wire.MaxDocument,
			"%d partitions, %d increments: %d bytes, of at most %d", partitions, len(w.Increments), n, w.Bytes())
	}
}

// A long window is cut into as many as have room, with all of its rows. Increments of other weights, and what came
// before a change of the stream, stay apart.
func TestLongWindowsAreShortened(t *testing.T) {
	const bytes = 1 << 20
	w := &Window{}
	for number := 1; number <= 10_000; number++ {
		w.Increments = append(w.Increments, numberedIncrement(number, 10))
	}
	w.Changed = 9_999
	w.Increments[4].Increment.Weight = 0.5
	short := &Window{Increments: w.Shortened(0, bytes)}
	assert.True(t, short.Bytes() <= bytes && short.Rows() == w.Rows(),
		"%d increments of %d bytes with %d rows, expected at most %d with %d", len(short.Increments), short.Bytes(), short.Rows(), bytes,
		w.Rows())
	size := 0
	for i := range short.Increments {
		c := &short.Increments[i].Increment
		size += c.Size()
		assert.True(t, (c.Number >= w.Changed || c.Number+c.Size() <= w.Changed) && (c.Number >= 5 || c.Number+c.Size() <= 5) &&
			(c.Number != 5 || c.Size() <= 1), "increment %d has %d", c.Number, c.Size())
	}
	assert.True(t, size == len(w.Increments), "%d increments, expected %d", size, len(w.Increments))
	half := (&Window{Increments: short.Increments[1:]}).Shortened(len(short.Increments)-1, bytes)
	assert.True(t, len(half) <= len(short.Increments)/2+3, "%d of %d increments", len(half), len(short.Increments))
	few := (&Window{Increments: w.Increments[:10]}).Shortened(11, bytes)
	assert.True(t, len(few) == 10, "%d of 10 increments that have room", len(few))
}

// Origins say of each row which message it is of, and as a header they say the same.
func TestRowOrigins(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		type place struct {
			partition int
			offset    int64
		}
		var origins examples.RowOrigins
		var rows []place
		next, longest := []int64{5, 0, 1 << 40}, len(examples.RowOrigins{}.Header().Value)
		for range random.IntN(60) {
			partition, n := random.IntN(len(next)), 1+random.IntN(2)*random.IntN(3)
			if random.IntN(2) == 0 && len(rows) > 0 {
				partition = rows[len(rows)-1].partition
			}
			next[partition] += int64(random.IntN(8) / 7) // a message that has no rows
			longest += origins.Bytes(partition, next[partition], n)
			origins = origins.Append(partition, next[partition], n)
			for range n {
				rows = append(rows, place{partition, next[partition]})
			}
			next[partition]++
		}
		read, err := examples.RowOriginsOf(wire.Message{Headers: []wire.Header{origins.Header()}})
		assert.Need(t, err == nil && slices.Equal(read, origins), "%v are read as %v, %v", origins, read, err)
		n := len(origins.Header().Value)
		assert.True(t, n <= longest, "the header has %d bytes, expected at most %d", n, longest)
		for range 20 {
			partition, from := random.IntN(len(next)), int64(random.IntN(40))
			to := from + int64(random.IntN(10))
			var got, want []int
			origins.In(partition, from, to, func(first, end int) {
				for row := first; row < end; row++ {
					got = append(got, row)
				}
			})
			for row, p := range rows {
				if p.partition == partition && p.offset >= from && p.offset < to {
					want = append(want, row)
				}
			}
			assert.Need(t, slices.Equal(got, want),
				"%v: the rows %v are of partition %d, offsets %d to %d; expected %v", origins, got, partition, from, to, want)
		}
	}
	for _, text := range []string{"x", "[[0,1,2]]", "[[0,1,0,1]]", "[[0,-1,1,1]]", "[[0,1,1,4294967296]]", "[[-1,0,1,1]]"} {
		read, err := examples.RowOriginsOf(wire.Message{Headers: []wire.Header{{Key: "stagewise-rows", Value: text}}})
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: %v, %v", text, read, err)
	}
}

// Keys come back as they were, whatever bytes they have. Those who decode the examples need not know of them.
func TestSourceKeys(t *testing.T) {
	mem := assert.Allocator(t)
	rows := examples.Rows{Rows: 4, Cols: 1, Floats: []float32{1, 2, 3, 4}, Words: []string{"a", "b", "a", "b"}}
	for _, keys := range [][]string{nil, {"u42", "", "\xff\x00", "a key"}} {
		rows.SourceKeys, rows.Origins = keys, examples.RowOrigins{{Partition: 1, Offset: 7, Rows: 2, Messages: 2}}
		m := assert.Must(Origin{Source: TopicSource("clicks"), Attempt: "1"}.TopicMessage(positions(), &rows, mem))(t)
		got, err := examples.SourceKeys(m.Value, mem)
		assert.True(t, err == nil && slices.Equal(got, keys), "the keys %q are read as %q, %v", keys, got, err)
		assert.Equal(t, assert.Must(examples.RowOriginsOf(m))(t), rows.Origins, "origins")
		examples := assert.Must(examples.Decode(m.Value, mem))(t)
		assert.True(t, examples.Rows == 4 && examples.Label(3) == "b", "%d rows, the last with the label %s", examples.Rows, examples.Label(3))
	}
	keys, err := examples.SourceKeys([]byte("damaged"), mem)
	assert.True(t, errors.Is(err, wire.ErrDamaged), "damaged bytes: %q, %v", keys, err)
	origins, err := examples.RowOriginsOf(goldens(t)["examples"])
	assert.True(t, origins == nil && err == nil, "rows of a file have origins %v, %v", origins, err)
}

// What a topic has left of a source, whatever offsets it has.
func TestLeftOfASource(t *testing.T) {
	// Seven messages on two partitions. In partition 1 two messages of others stand between them.
	seal := SourceSeal{ID: "s", Attempt: "1", Partitions: 2, Messages: 7, Spans: coverage.Spans{{Partition: 0, From: 10, To: 14},
		{Partition: 1, From: 0, To: 5}}}
	for _, test := range []struct {
		bounds []coverage.Span
		held   Holding
		left   int64
	}{
		{[]coverage.Span{{Partition: 0, From: 0, To: 20}, {Partition: 1, From: 0, To: 20}}, HeldWhole, 7},
		{[]coverage.Span{{Partition: 0, From: 10, To: 14}, {Partition: 1, From: 0, To: 5}}, HeldWhole, 7},
		{[]coverage.Span{{Partition: 0, From: 11, To: 14}, {Partition: 1, From: 0, To: 5}}, HeldInPart, 6},
		{[]coverage.Span{{Partition: 0, From: 10, To: 14}, {Partition: 1, From: 1, To: 5}}, HeldInPart, 7}, // of four offsets, three can have messages of the source
		{[]coverage.Span{{Partition: 0, From: 15, To: 20}, {Partition: 1, From: 4, To: 5}}, HeldInPart, 1},
		{[]coverage.Span{{Partition: 0, From: 14, To: 20}, {Partition: 1, From: 5, To: 5}}, HeldNot, 0},
		{[]coverage.Span{{Partition: 0, From: 0, To: 14}, {Partition: 1, From: 0, To: 4}}, HeldNot, 0}, // the topic was made anew
		{[]coverage.Span{{Partition: 0, From: 0, To: 20}}, HeldNot, 0},
	} {
		held, left := seal.Held(test.bounds), seal.Left(test.bounds)
		assert.True(t, held == test.held && left == test.left,
			"%v: held %d, %d messages left; expected %d and %d", test.bounds, held, left, test.held, test.left)
	}
	for partition, want := range []int64{4, 3, 0} {
		n := seal.In(partition)
		assert.True(t, n == want, "%d messages in partition %d, expected %d", n, partition, want)
	}
}

// A record of statistics whose counts are none is damaged, whatever its digest says; losses may be anything, as scores overflow.
func TestCountsThatAreNone(t *testing.T) {
	sums := func(name string, shape []int, at int, v float64) error {
		size := 1
		for _, n := range shape {
			size *= n
		}
		data := make([]float64, size)
		data[at] = v
		record := &wire.Record[float64]{
			Identity: wire.Identity{Kind: statistics.KindVisit, Run: "r", Stage: 0, Visit: 1, Partition: 2},
			Tensors:  wire.Tensors[float64]{{Name: name, Shape: shape, Data: data}},
		}
		messages := assert.Must(record.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator))(t)
		_, err := new(statistics.Collector).Add(messages[0], memory.DefaultAllocator)
		return err
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e200} {
		for name, err := range map[string]error{
			"splits": sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 1, v),
			"average/splits": sums(statistics.PartAverage+"/"+statistics.FieldSplits, []int{examples.Splits, statistics.LossFields},
				statistics.LossFields+1, v),
			"confusion": sums(statistics.FieldConfusion, []int{examples.Splits, 2, 2}, 3, v),
			"bins":      sums(statistics.FieldBins, []int{examples.Splits, 15, 3}, 42, v),
			"overflow":  sums(statistics.FieldOverflow, []int{1}, 0, v),
			"forgotten": sums(statistics.FieldForgotten, []int{2}, 1, v),
		} {
			assert.True(t, errors.Is(err, wire.ErrDamaged), "%v in %s: %v", v, name, err)
		}
		for name, err := range map[string]error{
			"distance":   sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 2, v),
			"loss":       sums(statistics.FieldSplits, []int{examples.Splits, statistics.LossFields}, 3, v),
			"confidence": sums(statistics.FieldBins, []int{examples.Splits, 15, 3}, 43, v),
			"cross":      sums(statistics.FieldCross, []int{2, 2}, 3, v),
			"judged":     sums(statistics.FieldOffered, []int{3}, 2, v),
		} {
			assert.True(t, err == nil, "%v as %s: %v", v, name, err)
		}
	}
	texts := &wire.Record[float64]{Identity: wire.Identity{Kind: statistics.KindVisit, Run: "r"},
		Tensors: wire.Tensors[float64]{wire.Words[float64](statistics.FieldGramRows, []string{"a"})}}
	m := assert.Must(texts.EncodeWithin(0, memory.DefaultAllocator))(t)[0]
	assert.MustFail(new(statistics.Collector).Add(m, memory.DefaultAllocator))(t, wire.ErrDamaged)
	assert.MustFail((wire.Tensors[float64]{wire.Words[float64](statistics.FieldCross, []string{"a"})}).Shaped(statistics.FieldCross,
		1))(t, new(*wire.ShapeError))
}

// A report whose confusion matrix does not fit its labels is damaged: whoever shows it names rows and columns by the labels.
func TestReportsThatDoNotFit(t *testing.T) {
	for _, confusion := range [][][]int64{{{1}}, {{1, 2, 3}, {1, 2, 3}}, {{1, 2}, {1}}, {{1, 2}, {1, -2}}, {{1, 2}, {1, 2}, {1, 2}}} {
		r := &Report{Run: "r", Labels: []string{"a", "b"}, Splits: map[string]SplitReport{"test": {Rows: 3, Confusion: confusion}}}
		_, err := DecodeJSON[Report](assert.Must(r.Messages())(t)[0])
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%v: %v", confusion, err)
	}
	plan := wire.Message{Key: "p", Value: []byte(`{"segment":1,"spans":[{"partition":1000000000,"from":0,"to":1}]}`)}
	assert.MustFail(DecodeJSON[Plan](plan))(t, wire.ErrDamaged)
}

// A figure that JSON can't carry becomes the largest that it can.
func TestFinite(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, -1.5: -1.5, math.Inf(1): math.MaxFloat64, math.Inf(-1): math.MaxFloat64} {
		assert.Equal(t, wire.Finite(v), want, "%v", v)
	}
	assert.Equal(t, wire.Finite(math.NaN()), math.MaxFloat64, "NaN")
}

// checkJSON checks that texts are values as JSON, which are read and written so, and that other texts are refused.
func checkJSON[T any](t *testing.T, values map[string]T, refused ...string) {
	t.Helper()
	for text, want := range values {
		var got T
		err := json.Unmarshal([]byte(text), &got)
		assert.True(t, err == nil && reflect.DeepEqual(got, want), "%s is read as %+v, %v", text, got, err)
		written, err := json.Marshal(want)
		assert.True(t, err == nil && string(written) == text, "%s is written as %s, %v", text, written, err)
	}
	for _, text := range refused {
		got := new(T)
		assert.True(t, json.Unmarshal([]byte(text), got) != nil, "%s is read as %+v", text, *got)
	}
}

func TestClassWeightAsJSON(t *testing.T) {
	weights := map[string]ClassWeight{`"none"`: {}, `"balanced"`: {Balanced: true}, `{"cat":2,"dog":0.5}`: {By: map[string]float64{"cat": 2, "dog": 0.5}},
		`{"rare":0}`: {By: map[string]float64{"rare": 0}}}
	checkJSON(t, weights, `"equal"`, `{"cat":-1}`, `{"cat":"2"}`, `{}`, `3`)
	for text, w := range weights {
		assert.True(t, w.Equal(weights[text]) && w.IsZero() == (text == `"none"`), "%s is zero: %v", text, w.IsZero())
	}
}

// A ridge is a number in JSON, with the bits that it had when it was a number, or auto.
func TestRidgeInJSON(t *testing.T) {
	ridges := map[string]Ridge{`"auto"`: RidgeAuto}
	for _, r := range []Ridge{0, 1e-4, 3e-7, 0.1, 1e300, 12} {
		ridges[string(wire.JSON(float64(r)))] = r
	}
	checkJSON(t, ridges, `-1`, `-0.5`, `"1e-4"`, `"none"`, `true`, `{}`, `1e999`)
}

func TestRidgeIsValid(t *testing.T) {
	for r, want := range map[Ridge]bool{0: true, 1e-9: true, RidgeAuto: true, -0.5: false, -2: false, Ridge(math.Inf(1)): false,
		Ridge(math.NaN()): false} {
		assert.Equal(t, r.Valid(), want, "ridge %v is valid", r)
	}
}

// A rule has one JSON, which is read as the same rule, and nothing else is a rule.
func TestThresholdAsJSON(t *testing.T) {
	checkJSON(t, map[string]ThresholdRule{`0.5`: {}, `0.25`: {At: 0.25}, `"best_f1"`: {BestF1: true}, `{"cost":{"fp":1,"fn":20}}`: {Costs: ThresholdCosts{1, 20}}},
		`0`, `1`, `-1`, `1.5`, `"f1"`, `null`, `{}`, `{"cost":{}}`, `{"cost":{"fp":1}}`, `{"cost":{"fp":-1,"fn":1}}`, `[]`, `true`)
}

// A better decision has less.
func TestThresholdCost(t *testing.T) {
	few, many := statistics.Decision{{90, 10}, {4, 6}}, statistics.Decision{{99, 1}, {9, 1}}
	for _, r := range []ThresholdRule{{BestF1: true}, {Costs: ThresholdCosts{1, 20}}} {
		assert.True(t, r.Chosen() && r.Cost(few) < r.Cost(many), "%v: %v and %v", r, r.Cost(few), r.Cost(many))
	}
	r := (ThresholdRule{Costs: ThresholdCosts{1, 1}})
	assert.True(t, r.Cost(few) == 14 && r.Cost(many) == 10, "wrong rows cost %v and %v", r.Cost(few), r.Cost(many))
}
