package wire

// Mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014) with Vigna's constants. It is a bijection of 64 bits, and
// every bit of its argument changes about half of the bits of its result. All hashes and draws of stagewise are based on
// it, so that other languages can reproduce them in ten lines.
func Mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash folds values into one: h = 0, then h = Mix(h ^ v) for each v.
func Hash(values ...uint64) uint64 {
	h := uint64(0)
	for _, v := range values {
		h = Mix(h ^ v)
	}
	return h
}
