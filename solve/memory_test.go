package solve

import "testing"

// Memory is reused for as many values or fewer, zeros are zeros, and memory that is far too long is dropped.
func TestMemoryIsUsedAgain(t *testing.T) {
	var m Memory
	long, short := m.Take(1000), m.Take(300)
	for i := range long {
		long[i] = 1
	}
	m.Put(long, short, nil)
	zeros := m.Zeros(900)
	if &zeros[0] != &long[0] {
		t.Error("900 values are not in the memory of 1000")
	}
	for i, v := range zeros {
		if v != 0 {
			t.Fatalf("value %d is %v", i, v)
		}
	}
	if got := m.Take(200); &got[0] != &short[0] || len(got) != 200 {
		t.Errorf("%d values, not in the memory of 300", len(got))
	}
	if got := m.Take(10); cap(got) > 20 {
		t.Errorf("10 values are in memory of %d, which was given out", cap(got))
	}
	m.Put(zeros[:100])
	if got := m.Take(100); &got[0] == &zeros[0] {
		t.Error("memory of 1000 values is kept for 100")
	}
}
