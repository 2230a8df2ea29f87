package schemas

// Mix is SplitMix64's finaliser (Steele, Lea, Flood 2014; Vigna's constants):
// a bijection of 64 bits in which every bit of the argument changes about half
// of the bits of the result. All hashes and draws of stagewise come from it,
// so that other languages can repeat them with ten lines.
func Mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash folds numbers into one: h = 0, then h = Mix(h ^ v) for each v.
func Hash(values ...uint64) uint64 {
	h := uint64(0)
	for _, v := range values {
		h = Mix(h ^ v)
	}
	return h
}
