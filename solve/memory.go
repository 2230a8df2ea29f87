package solve

// Memory is a free list of matrices that successive updates reuse. They have a row per occurring column, so they are
// megabytes, which would be garbage after each update. The zero value is empty. It is not safe for concurrent use.
type Memory struct{ free [][]float64 }

// keptRatio is the largest ratio of capacity to last length that is kept: an update with many rows may not recur.
const keptRatio = 4

// Take returns memory for the given number of values, which are unspecified.
func (m *Memory) Take(size int) []float64 {
	best := -1
	for i, f := range m.free {
		if cap(f) >= size && (best < 0 || cap(f) < cap(m.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]float64, size, size+size/8) // headroom: the next updates may have a few columns more
	}
	taken, last := m.free[best][:size], len(m.free)-1
	m.free[best], m.free = m.free[last], m.free[:last]
	return taken
}

// Zeros returns the given number of zeros.
func (m *Memory) Zeros(size int) []float64 {
	taken := m.Take(size)
	clear(taken)
	return taken
}

// Put takes back memory that is no longer used.
func (m *Memory) Put(all ...[]float64) {
	for _, values := range all {
		if len(values) > 0 && cap(values) <= keptRatio*len(values) {
			m.free = append(m.free, values)
		}
	}
}
