package outcome

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// BenchmarkWaitingRows adds 1,000,000 rows, of which most wait on disk, then outcomes of half of them in random order, and lets the
// others expire.
func BenchmarkWaitingRows(b *testing.B) {
	const rows, limit = 1_000_000, 64 << 20
	key := func(i int) string { return fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15) } // in random order
	random := rand.New(rand.NewPCG(1, 1))
	values := make([]byte, 1<<20) // that do not compress
	for i := range values {
		values[i] = byte(random.Uint32())
	}
	for b.Loop() {
		folder, decided := b.TempDir(), 0
		inputs := []examples.JoinInput{{Time: Never, Since: Never}}
		j := New(Rule{Within: time.Hour}, inputs, inputs, Begin(0), limit, NewDisk(folder, limit))
		count := func(Decided) error {
			decided++
			return nil
		}
		check := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		var disk int64
		begun := time.Now()
		lap := func(name string, entries int) {
			b.ReportMetric(float64(time.Since(begun).Microseconds())/float64(entries), name+"-µs/row")
			disk = max(disk, sizeOf(b, folder))
			begun = time.Now()
		}
		for i := range rows {
			check(j.Row(Message{Offset: int64(i), Time: int64(i), Key: key(i), Value: values[i%1000*997:][:200]}, nil))
		}
		lap("insert", rows)
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		for at, i := range random.Perm(rows)[:rows/2] {
			check(j.Outcome(Outcome{Offset: int64(at), Time: rows, Labels: []Labelled{{key(i), "yes"}}}, count))
		}
		check(j.Outcome(Outcome{Offset: rows, Time: rows + 1}, count))
		lap("match", rows/2)
		if decided != rows/2 {
			b.Fatalf("%d rows are decided, expected %d", decided, rows/2)
		}
		check(j.Outcome(Outcome{Offset: rows + 1, Time: 10 * 3_600_000}, count))
		lap("expire", rows)
		if decided != rows || j.Waiting() != 0 {
			b.Fatalf("%d rows are decided and %d wait, expected %d and none", decided, j.Waiting(), rows)
		}
		check(j.Close())
		var used syscall.Rusage
		check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
		b.ReportMetric(float64(heap.HeapSys-heap.HeapReleased)/1e6, "heap-MB")
		b.ReportMetric(float64(used.Maxrss)/1e3, "peak-rss-MB")
		b.ReportMetric(float64(used.Utime.Sec+used.Stime.Sec), "cpu-s")
		b.ReportMetric(float64(disk)/1e6, "disk-MB")
	}
}

// sizeOf returns the size of the open files in a directory, including those without a name.
func sizeOf(b *testing.B, folder string) (size int64) {
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range open {
		target, _ := os.Readlink(name)
		if file, err := os.Stat(name); err == nil && strings.HasPrefix(target, folder) {
			size += file.Size()
		}
	}
	return size
}
