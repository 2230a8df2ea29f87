package schemas

// Augment says which rows a run makes of each training row that is an image, beside the row itself. They share its weight, and exist
// only in the visits: no examples message has them, and no other row is replaced. The zero value makes none.
type Augment struct {
	Mirror bool `json:"mirror,omitempty"` // adds the image mirrored from left to right, and its shifts
	Shift  int  `json:"shift,omitempty"`  // adds the image shifted by 1 to this many pixels to the left, to the right, up and down
}

// Rows returns how many rows there are of an image, itself included.
func (a Augment) Rows() int {
	n := 1 + 4*a.Shift
	if a.Mirror {
		n *= 2
	}
	return n
}
