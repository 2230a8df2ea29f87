package linear

import "github.com/stagewise/stagewise/internal/spill"

// Matrices are a few matrices (p × k) that a fit keeps between visits, in memory or in a file. Only one window of rows
// of those in a file is in memory at a time.
type Matrices struct {
	p, k   int
	file   *spill.File // nil: they are in memory
	memory [][]float64
	places []int // offsets in the file
}

// NewMatrices returns matrices with unspecified values. file may be nil.
func NewMatrices(count, p, k int, file *spill.File) *Matrices {
	m := &Matrices{p: p, k: k, file: file, memory: make([][]float64, count)}
	for range count {
		if file != nil {
			m.places = append(m.places, file.Place(p*k))
		}
	}
	return m
}

// windowParts is the number of parts of a sum (see [AddSums]) per window: 8 MB of each matrix.
const windowParts = 16

// Each calls do for each window of the rows 0 … p−1, in order, with the rows of the matrices whose indices are in read
// or written. The values of rows that are only written are unspecified. Sums made with [AddSums], window after window,
// have the bits of sums over all rows. Errors are those of the file.
func (m *Matrices) Each(read, written []int, do func(from, to int, rows [][]float64)) error {
	used := append(append([]int{}, read...), written...)
	if m.file == nil {
		for _, i := range used {
			if m.memory[i] == nil {
				m.memory[i] = make([]float64, m.p*m.k)
			}
		}
		do(0, m.p, m.memory)
		return nil
	}
	size := partRows(m.k) * windowParts
	rows, buffers := make([][]float64, len(m.places)), make([][]float64, len(m.places))
	for _, i := range used {
		if buffers[i] == nil {
			buffers[i] = make([]float64, min(size, m.p)*m.k)
		}
	}
	for from := 0; from < m.p; from += size {
		to := min(from+size, m.p)
		for _, i := range used {
			rows[i] = buffers[i][:(to-from)*m.k]
		}
		for _, i := range read {
			if err := m.file.Read(m.places[i]+from*m.k, rows[i]); err != nil {
				return err
			}
		}
		do(from, to, rows)
		for _, i := range written {
			if err := m.file.Write(m.places[i]+from*m.k, rows[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
