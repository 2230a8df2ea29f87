package explain

import "slices"

const (
	sliceWords   = 10 // words with a slice of their own
	sliceNumbers = 4  // slices of numbers: quartiles, or values if there are no more
)

// slicesOf returns the measures of rows by the values of a column.
func slicesOf(rows *Rows, c *column, own *each) Slices {
	s := Slices{Name: c.Name}
	add := func(text string, of []int) {
		if len(of) > 0 {
			s.Slices = append(s.Slices, Slice{Value: text, Rows: len(of), Measures: own.mean(of)})
		}
	}
	if c.isWords() {
		words, of := rowsByWord(rows, c)
		var rest []int
		for i, place := range words {
			if i < sliceWords {
				add(c.wordText(place), of[place])
			} else {
				rest = append(rest, of[place]...)
			}
		}
		slices.Sort(rest)
		add("all others", rest)
		return s
	}
	sorted, _ := numbersOf(rows, c)
	bounds, texts := c.ranges(sorted)
	of, lacking := make([][]int, len(bounds)), []int(nil)
	for i := range rows.Len() {
		v := rows.Features.Row(i)[c.from]
		if v != v {
			lacking = append(lacking, i)
			continue
		}
		at, _ := slices.BinarySearch(bounds, v)
		of[at] = append(of[at], i)
	}
	for at, list := range of {
		add(texts[at], list)
	}
	add(missing, lacking)
	return s
}

// ranges divides numbers, sorted, into few ranges with about as many each. bounds are the largest number of each, and texts what people
// call it.
func (c *column) ranges(sorted []float32) (bounds []float32, texts []string) {
	if len(sorted) == 0 {
		return nil, nil
	}
	if bounds = slices.Compact(slices.Clone(sorted)); len(bounds) <= sliceNumbers {
		for _, v := range bounds {
			texts = append(texts, c.number(v))
		}
		return bounds, texts
	}
	bounds = bounds[:0:0]
	for q := 1; q <= sliceNumbers; q++ {
		bounds = append(bounds, sorted[q*len(sorted)/sliceNumbers-1])
	}
	bounds = slices.Compact(bounds)
	for i, v := range bounds {
		switch {
		case i == 0:
			texts = append(texts, "at most "+c.number(v))
		case i == len(bounds)-1:
			texts = append(texts, "above "+c.number(bounds[i-1]))
		default:
			texts = append(texts, c.number(bounds[i-1])+" to "+c.number(v))
		}
	}
	return bounds, texts
}
