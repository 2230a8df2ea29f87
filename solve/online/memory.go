package online

// Memory is memory for the matrices of an update, which those of the next update use again. They have a row for each column that occurs,
// so they are megabytes, which would be garbage after each update. The zero value has none. It belongs to one goroutine.
type Memory struct{ free [][]float64 }

// keptRatio is how many times as long as what was last in it memory may be to be kept: an update that had many rows may never come again.
const keptRatio = 4

// Take returns memory for that many values, with any content.
func (m *Memory) Take(size int) []float64 {
	best := -1
	for i, f := range m.free {
		if cap(f) >= size && (best < 0 || cap(f) < cap(m.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return make([]float64, size, size+size/8) // the next updates may have a few columns more
	}
	taken, last := m.free[best][:size], len(m.free)-1
	m.free[best], m.free = m.free[last], m.free[:last]
	return taken
}

// Zeros returns memory for that many zeros.
func (m *Memory) Zeros(size int) []float64 {
	taken := m.Take(size)
	clear(taken)
	return taken
}

// Put takes back memory that nobody uses any more.
func (m *Memory) Put(all ...[]float64) {
	for _, values := range all {
		if len(values) > 0 && cap(values) <= keptRatio*len(values) {
			m.free = append(m.free, values)
		}
	}
}
