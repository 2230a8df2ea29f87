package accumulate

import "testing"

// A cross moment in memory of the pool begins at 0, whatever that memory held. A sum that has one keeps it.
func TestPooledCross(t *testing.T) {
	for _, pool := range []*CrossPool{nil, {}} {
		for _, p := range []int{65, 64, 1, 63} {
			sum := &Sum{}
			cross := pool.Cross(sum, p, 2)
			if len(cross) != 2*p {
				t.Fatalf("%d columns: %d values", p, len(cross))
			}
			for i, v := range cross {
				if v != 0 {
					t.Fatalf("%d columns: value %d is %g", p, i, v)
				}
				cross[i] = -1
			}
			if again := pool.Cross(sum, p, 2); &again[0] != &cross[0] || again[0] != -1 {
				t.Errorf("%d columns: the cross moment of a sum is another one the second time", p)
			}
			if pool.Put(sum); len(sum.Tensors()) != 0 {
				t.Errorf("%d columns: the sum still has %d fields", p, len(sum.Tensors()))
			}
			pool.Put(sum) // there is none any more
		}
	}
}
