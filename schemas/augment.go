package schemas

// Augment configures the rows that a run generates from each training row that is an image, in addition to the row itself. They share its
// weight and exist only in visits: no examples message has them, and they replace no other row. The zero value generates none.
type Augment struct {
	Mirror bool `json:"mirror,omitempty"` // adds the image mirrored from left to right, and its shifts
	Shift  int  `json:"shift,omitempty"`  // adds the image shifted by 1 to this many pixels to the left, to the right, up and down
}

// Rows returns the number of rows of an image, including the image itself.
func (a Augment) Rows() int {
	n := 1 + 4*a.Shift
	if a.Mirror {
		n *= 2
	}
	return n
}
