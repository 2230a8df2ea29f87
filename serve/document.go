package serve

import (
	"strconv"

	"github.com/stagewise/stagewise/serve/jsonscan"
)

// The members of a request. Others are ignored, and their order is irrelevant.
const (
	keyRows    = "rows"
	keyColumns = "columns"
)

// document reads a JSON request: its rows, and the other members, which may come before or after them.
type document struct {
	jsonscan.Scanner
	asks    *asked
	list    func() (changed bool, err error) // reads the value of "columns", and reports whether it changes the meaning of rows
	columns *columns
	start   int            // start of the rows
	began   int            // start of the current row
	places  [][2]int       // ranges of the rows read
	count   int            // number of rows read
	ended   bool           // the last row was read
	names   jsonscan.Names // names of the members read
	known   bool           // the members after the rows were read: later passes skip them
}

// open reads the members before the rows.
func (d *document) open() error {
	if err := d.Expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		there, err := d.More('}', first)
		if err != nil {
			return err
		}
		if !there {
			return d.Errorf(`no "rows"`)
		}
		key, err := d.key()
		if err != nil {
			return err
		}
		if key == keyRows {
			d.start = d.At
			return d.begin()
		}
		if _, err := d.member(key); err != nil {
			return err
		}
	}
}

// begin starts the list of rows, for the first time or again.
func (d *document) begin() error {
	d.At, d.count, d.ended = d.start, 0, false
	d.columns.begin()
	return d.Expect('[')
}

// row starts the next row, and returns false after the last.
func (d *document) row() (there bool, err error) {
	if d.ended {
		return false, nil
	}
	there, err = d.More(']', d.count == 0)
	d.ended = !there && err == nil
	if there {
		d.Peek()
		d.began = d.At
	}
	return there, err
}

// rowEnds records the end of a row.
func (d *document) rowEnds() {
	d.count++
	d.places = append(d.places, [2]int{d.began, d.At})
}

// key reads the name of a member, and the colon.
func (d *document) key() (string, error) {
	name, err := d.String()
	if err != nil {
		return "", err
	}
	if !d.known {
		if err := d.Once(&d.names, "member", name); err != nil {
			return "", err
		}
	}
	return string(name), d.Expect(':')
}

// member reads the value of a member other than the rows. changed reports whether it changes the meaning of rows, or the
// contents of the answer.
func (d *document) member(key string) (changed bool, err error) {
	switch key {
	case keyColumns:
		return d.list()
	case keyTop:
		before := d.asks.top
		text, err := d.Number()
		if err != nil {
			return false, err
		}
		if d.asks.top, err = strconv.Atoi(string(text)); err != nil || d.asks.top < 1 {
			return false, d.Errorf("%q: %.20s: expected a number of labels, at least 1", keyTop, text)
		}
		return d.asks.top != before, nil
	case keyClasses:
		before := d.asks.classes
		d.asks.classes = d.Peek() == 't'
		word := strconv.FormatBool(d.asks.classes)
		if !d.Literal(word) {
			return false, d.Expected("true or false")
		}
		return d.asks.classes != before, nil
	}
	return false, d.Skip()
}

// finish reads the members after the rows. again reports whether they change the meaning of rows, or the answer: the rows
// are read again.
func (d *document) finish() (again bool, err error) {
	for {
		there, err := d.More('}', false)
		if err != nil {
			return false, err
		}
		if !there {
			break
		}
		key, err := d.key()
		if err != nil {
			return false, err
		}
		changed := false
		if d.known {
			err = d.Skip()
		} else {
			changed, err = d.member(key)
		}
		if err != nil {
			return false, err
		}
		again = again || changed
	}
	if err := d.End(); err != nil {
		return false, err
	}
	if d.known, d.names = true, nil; again {
		return true, d.begin()
	}
	return false, nil
}
