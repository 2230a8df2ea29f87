package visit

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// newBatch returns a batch of n rows.
func newBatch(offset int64, n, inputs, classes int) *Batch {
	return &Batch{Offset: offset, Inputs: kernel.NewDense(n, inputs), Score: kernel.NewDense(n, classes)}
}

// left returns the bytes of a cache that a run can still have.
func left(b *Cache) (bytes int64) {
	for step := int64(1) << 40; step > 0; step /= 2 {
		if b.Has(bytes + step) {
			bytes += step
		}
	}
	return bytes
}

// A cache never grants more than it has to concurrent callers, and takes returned bytes back.
func TestCacheBytes(t *testing.T) {
	const bytes = 1000
	b := NewCache(bytes)
	assert.True(t, !b.tryReserve(bytes+1) && b.tryReserve(0) && left(b) == bytes, "%d bytes left of %d", left(b), bytes)
	var mutex sync.Mutex
	taken, taking := int64(0), sync.WaitGroup{}
	for n := range int64(8) {
		taking.Go(func() {
			for range 1000 {
				if b.tryReserve(n + 1) {
					mutex.Lock()
					taken += n + 1
					assert.True(t, taken <= bytes, "%d bytes of %d are taken", taken, bytes)
					mutex.Unlock()
				}
			}
		})
	}
	taking.Wait()
	assert.Equal(t, taken+left(b), bytes, "bytes that are taken or left")
	b.Give(taken)
	assert.Equal(t, left(b), bytes, "bytes left after all were given back")
}

// Essential memory is reserved even beyond the budget, and nothing else is until there is room again.
func TestReserve(t *testing.T) {
	b := NewCache(1000)
	assert.True(t, b.Reserve(400) && left(b) == 600, "%d bytes left, expected 600", left(b))
	b.KeepGram(0, "a", recordOf(300))
	assert.True(t, b.Reserve(400) && left(b) == 200, "%d bytes left, expected 200 without what was idle", left(b))
	assert.True(t, b.Gram(0, "a") == nil, "what was idle is still there")
	assert.True(t, !b.Reserve(201) && !b.tryReserve(1) && !b.Has(0), "a cache gives more than it has")
	b.Give(1001)
	assert.True(t, left(b) == 1000 && b.tryReserve(1000), "%d bytes left after all were given back, expected 1000", left(b))
}

// Whatever a partition stores, in any order, with any amount of memory: it never exceeds the budget, its reported memory
// is what it has reserved, and Release returns everything.
func TestReleaseGivesBackAllThatWasTaken(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		bytes := int64(random.IntN(20_000))
		budget, runs := NewCache(bytes), random.IntN(2) == 0
		budget.runs = runs
		s := NewShare(4, &Part{Span: coverage.Span{Partition: 1, From: 3, To: 20}})
		shared := kernel.Dense{}
		for range 50 {
			segment := s.Segments[random.IntN(len(s.Segments))]
			switch random.IntN(6) {
			case 0:
				budget.Leave(s, Made{}, func(stage int) bool { return stage > 0 })
			case 1:
				var batches []*Batch
				segment.counted = []counted{}
				for range random.IntN(3) {
					batches = append(batches, newBatch(segment.Span.From, random.IntN(66), 3, 2))
					segment.counted = append(segment.counted, counted{offset: segment.Span.From})
				}
				segment.KeepBatches(batches, budget)
			case 2:
				budget.Return(s, Made{}, true)
			case 3:
				budget.Reserve(0)
			default:
				for _, b := range segment.Batches {
					stage, columns := random.IntN(3), 1+random.IntN(20)
					block, made := b.Block(stage, columns, &shared, budget)
					if again, kept := b.Block(stage, columns, &shared, budget); made && !kept || again.Rows != b.Inputs.Rows {
						t.Fatalf("seed %d: a block that was made is not there", seed)
					} else if kept && len(block.Data) > 0 && &block.Data[0] != &again.Data[0] {
						t.Fatalf("seed %d: the block that is kept is another", seed)
					}
				}
			}
			held := int64(0)
			for _, segment := range s.Segments {
				for _, b := range segment.Batches {
					held += b.bytes()
				}
			}
			now := left(budget)
			assert.Need(t, held+now == bytes && now >= 0, "seed %d: %d bytes held and %d left of %d", seed, held, now, bytes)
		}
		s.Release(budget)
		assert.Need(t, left(budget) == bytes, "seed %d: released, %d bytes are left of %d", seed, left(budget), bytes)
	}
}

// A block stays in memory for its stage if its batch does and the budget allows. Otherwise it is computed in shared memory.
func TestBlock(t *testing.T) {
	const n, columns = 65, 4
	row := rowBytes(3, 2*2)
	segment := NewShare(1, &Part{Span: coverage.Span{To: 1}}).Segments[0]
	for name, test := range map[string]struct {
		budget      int64
		kept, after bool // whether the batch's block is kept for 4 columns, and then for 5
	}{
		"enough":             {n*row + 4*n*(columns+1), true, true},
		"one column too few": {n*row + 4*n*columns, true, false},
		"rows alone":         {n * row, false, false},
		"nothing":            {0, false, false},
	} {
		budget, b, shared := NewCache(test.budget), newBatch(0, n, 3, 2), kernel.Dense{}
		segment.KeepBatches([]*Batch{b}, budget)
		for stage, want := range []bool{test.kept, test.after} {
			block, made := b.Block(stage, columns+stage, &shared, budget)
			assert.True(t, !made && block.Rows == n && block.Cols == columns+stage,
				"%s: stage %d: %d × %d, made %v", name, stage, block.Rows, block.Cols, made)
			_, made = b.Block(stage, columns+stage, &shared, budget)
			assert.Equal(t, made, want, "%s: stage %d: the block is there again", name, stage)
		}
		segment.dropBatches(budget)
	}
}

// Batches are restored in a run that counts the same messages and has the same dependencies, and their blocks if these
// have the same dependencies. Otherwise their memory is released.
func TestBatchesComeBack(t *testing.T) {
	const budget = 1 << 20
	made := Made{Rows: "rows", Blocks: "blocks"}
	one := func(offset int64, checksum uint64) []counted { return []counted{{offset, checksum}} }
	for name, test := range map[string]struct {
		made    Made
		own     bool // the blocks depend only on Made
		counted []counted
		rows    bool // restored
		block   bool
	}{
		"the same":            {made, true, one(3, 7), true, true},
		"blocks of scores":    {made, false, one(3, 7), true, false},
		"other blocks":        {Made{"rows", "other"}, true, one(3, 7), true, false},
		"other rows":          {Made{"other", "blocks"}, true, one(3, 7), false, false},
		"another message":     {made, true, one(3, 8), false, false},
		"no message":          {made, true, []counted{}, false, false},
		"more messages":       {made, true, []counted{{3, 7}, {4, 9}}, false, false},
		"no survey made here": {made, true, nil, false, false},
	} {
		cache, span := NewCache(budget), coverage.Span{To: 4}
		b := newBatch(3, 65, 3, 2)
		b.Checksum = 7
		before := NewShare(4, &Part{Span: span})
		before.Segments[0].KeepBatches([]*Batch{b}, cache)
		b.Block(0, 5, &kernel.Dense{}, cache)
		cache.Leave(before, made, func(int) bool { return test.own })
		assert.True(t, before.Segments[0].Batches == nil && cache.Has(budget), "%s: what was left is not idle", name)
		after := NewShare(4, &Part{Span: span})
		after.Segments[0].counted = test.counted
		cache.Return(after, test.made, false)
		got := after.Segments[0].Batches
		back := len(got) == 1 && got[0] == b
		assert.Equal(t, back, test.rows, "%s: the batches come back", name)
		assert.True(t, cache.Has(budget) != test.rows, "%s: the budget has all of its bytes, %v", name, test.rows)
		if test.rows {
			_, block := got[0].Block(0, 5, &kernel.Dense{}, cache)
			assert.Equal(t, block, test.block, "%s: the block comes back", name)
		}
		after.Release(cache)
		assert.True(t, cache.Has(budget) && !cache.Has(budget+1), "%s: the budget has not its bytes", name)
	}
}

// leave stores the only batch of a segment at an offset, at the end of a run, and returns its bytes.
func leave(c *Cache, offset int64) int64 {
	s := NewShare(1, &Part{Span: coverage.Span{From: offset, To: offset + 1}})
	s.Segments[0].KeepBatches([]*Batch{newBatch(offset, 65, 3, 2)}, c)
	bytes := s.Segments[0].Batches[0].bytes()
	c.Leave(s, Made{}, func(int) bool { return true })
	return bytes
}

// comesBack restores the batch of a segment at an offset, and leaves it again. It reports whether it was there.
func comesBack(c *Cache, offset int64) bool {
	s := NewShare(1, &Part{Span: coverage.Span{From: offset, To: offset + 1}})
	s.Segments[0].counted = []counted{{offset: offset}}
	c.Return(s, Made{}, true)
	there := s.Segments[0].Batches != nil
	c.Leave(s, Made{}, func(int) bool { return true })
	return there
}

// What no run uses is dropped when the run needs the memory, least recently used first, and nothing else is.
func TestIdleGoes(t *testing.T) {
	const n = 4
	bytes := leave(NewCache(1<<20), 0)
	cache := NewCache(n * bytes)
	for offset := range int64(n) {
		leave(cache, offset)
	}
	assert.True(t, comesBack(cache, 0), "what no run needed the memory of is gone") // so offset 1 was used first
	assert.True(t, cache.Has(n*bytes) && !cache.Has(n*bytes+1) && cache.tryReserve(1), "the memory of what is idle is not given")
	for offset, want := range []bool{true, false, true, true} {
		assert.Equal(t, comesBack(cache, int64(offset)), want, "the batch at offset %d is stored", offset)
	}
	cache.Drop(0)
	cache.Give(1)
	assert.True(t, !comesBack(cache, 3) && cache.Has(n*bytes) && !cache.Has(n*bytes+1), "the cache has not its bytes")
	single := NewRunCache(bytes)
	leave(single, 0)
	assert.True(t, !comesBack(single, 0) && single.Has(bytes), "what a single run no longer uses is kept")
}

// recordOf returns the record of a matrix that takes so many bytes.
func recordOf(bytes int) *wire.Record[float32] {
	return &wire.Record[float32]{Tensors: wire.Tensors[float32]{{Shape: []int{bytes / 4}, Data: make([]float32, bytes/4)}}}
}

// A Gram matrix stays for runs that need the same, while there is room besides everything else, and goes with the data of its partition.
func TestGramMatricesStay(t *testing.T) {
	record := recordOf(40)
	cache := NewCache(100)
	cache.KeepGram(1, "a", record)
	cache.KeepGram(1, "b", record)
	cache.KeepGram(2, "c", record) // there is no room
	assert.True(t, cache.Gram(1, "a") == record && cache.Gram(1, "b") == record && cache.Gram(2, "c") == nil && cache.Gram(2, "a") == nil,
		"the cache has other matrices than those that it had room for")
	assert.True(t, cache.Reserve(60) && cache.Gram(1, "a") == nil && cache.Gram(1, "b") == record,
		"expected that the matrix that was used first goes, and the other stays")
	cache.Drop(1)
	assert.True(t, cache.Gram(1, "b") == nil && cache.Has(40), "expected no matrix of a partition that was dropped")
	once := NewRunCache(100)
	once.KeepGram(1, "a", record)
	assert.True(t, once.Gram(1, "a") == nil && once.Has(100), "expected no matrix of a run that is the only one")
}

// files is a file system of these files.
func files(contents map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, content := range contents {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return all
}

func TestAllowed(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups": {nil, none},
		"no limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.current": "5\n"}, none},
		"container of 2": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n"}, 700},
		"cache is free": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n",
			"sys/fs/cgroup/memory.stat":    "anon 90\nfile 210\ninactive_file 200\n"}, 900},
		"group above": {map[string]string{"proc/self/cgroup": "0::/pod/c\n", "sys/fs/cgroup/pod/c/memory.max": "2000\n",
			"sys/fs/cgroup/pod/c/memory.current": "100",
			"sys/fs/cgroup/pod/memory.max":       "1000\n", "sys/fs/cgroup/pod/memory.current": "400"}, 600},
		"high": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.high": "500\n", "sys/fs/cgroup/a/memory.current": "100"}, 400},
		"over": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "1100\n"}, 0},
		"path of 2": {map[string]string{"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n"}, 700},
		"container of 1": {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n1:name=systemd:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "600\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n"}, 500},
		"no limit in 1": {map[string]string{"proc/self/cgroup": "5:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "600\n"}, none},
		"both": {map[string]string{"proc/self/cgroup": "5:hugetlb,memory:/a\n0::/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "800\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "100\n"}, 700},
	} {
		got, err := allowedByGroups(files(c.files))
		assert.True(t, err == nil && got == c.want, "%s: %d, %v, expected %d", name, got, err, c.want)
	}
	for _, contents := range []map[string]string{
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "much\n"},
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "300\n",
			"sys/fs/cgroup/memory.stat": "inactive_file x\n"},
	} {
		got, err := allowedByGroups(files(contents))
		assert.True(t, err != nil, "%v: %d", contents, got)
	}
}

// What this machine says can be read.
func TestBytes(t *testing.T) {
	got, err := freeBytes()
	assert.True(t, err == nil && got > 0, "%d, %v", got, err)
}
