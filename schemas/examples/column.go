package examples

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Column is a table column of examples, and defines its features. A numeric column is one feature. A categorical column has one feature
// per category, 1 in rows of this category and otherwise 0, and one more for all other words.
type Column struct {
	Name       string   `json:"name"`
	Categories []string `json:"categories,omitempty"` // of a categorical column; empty: numeric
	// Offset is subtracted from the numbers, so that float32 represents their differences: milliseconds since 1970 would be rounded to
	// multiples of 131072.
	Offset float64 `json:"offset,omitempty"`
	// Time is the part of a timestamp that the numbers are, see [value.PartOfTime]; "": none. The name of such a column is that of the
	// timestamp column, a point and the part.
	Time string `json:"time,omitempty"`
	// Unit is the unit of the timestamps that are numbers; "": none of the rows had a number.
	Unit value.Unit `json:"unit,omitempty"`
	// AnyTime says that numbers of the unit may be of any time, because it was set, or the first rows have times around 1970. Others are
	// checked, see [value.LikelyTime].
	AnyTime bool `json:"any_time,omitempty"`
}

// Source returns the name of the table column with the values: the timestamp column, or the column itself.
func (c Column) Source() string {
	if c.Time == "" {
		return c.Name
	}
	return strings.TrimSuffix(c.Name, "."+c.Time)
}

// PartOf returns the column for a part of the timestamps in a column with that name, and with numbers of that unit.
func PartOf(name, part string, u value.Unit) Column {
	return Column{Name: name + "." + part, Time: part, Unit: u}
}

// Features returns the number of features of the column.
func (c Column) Features() int {
	if len(c.Categories) == 0 {
		return 1
	}
	return len(c.Categories) + 1
}

// columnJSON is the JSON of a categorical column, a column with an offset, and a part of timestamps. The JSON of other numeric columns is
// the name, because there may be thousands in each message.
type columnJSON Column

// MarshalJSON returns the column's name as a JSON string, or an object if it has categories or an offset, or is a part of timestamps.
func (c Column) MarshalJSON() ([]byte, error) {
	if len(c.Categories) == 0 && c.Offset == 0 && c.Time == "" {
		return json.Marshal(c.Name)
	}
	return json.Marshal(columnJSON(c))
}

// UnmarshalJSON is the inverse of [Column.MarshalJSON].
func (c *Column) UnmarshalJSON(content []byte) error {
	if err := json.Unmarshal(content, &c.Name); err == nil {
		*c = Column{Name: c.Name}
		return nil
	}
	var object columnJSON
	if err := json.Unmarshal(content, &object); err != nil {
		return err
	}
	switch words := len(object.Categories) > 0; {
	case !words && object.Offset == 0 && object.Time == "":
		return errors.New("a column without categories, offset and time is a string")
	case words && object.Offset != 0:
		return errors.New("a column of words has no offset")
	case words && object.Time != "":
		return errors.New("a column of words is no part of times")
	case object.Unit != "" && (object.Time == "" || !object.Unit.Known()):
		return fmt.Errorf("no part of times has the unit %s", stream.Quote(string(object.Unit)))
	case object.AnyTime && object.Unit == "":
		return errors.New("a column without a unit has no numbers of any time")
	case object.Time != "" && !value.IsTimePart(object.Time):
		return fmt.Errorf("times have no part %s", stream.Quote(object.Time))
	case object.Time != "" && (len(object.Name) < len(object.Time)+2 || !strings.HasSuffix(object.Name, "."+object.Time)):
		return fmt.Errorf("the name %s of a part of times does not end with .%s", stream.Quote(object.Name), object.Time)
	}
	*c = Column(object)
	return nil
}

// Columns are the table columns of examples, in the order of their features. Without columns, the names of the features are unknown.
type Columns []Column

// Features returns the number of features of the columns.
func (c Columns) Features() (n int) {
	for _, column := range c {
		n += column.Features()
	}
	return n
}

// HasOffsets reports whether any column has an offset.
func (c Columns) HasOffsets() bool {
	return slices.ContainsFunc(c, func(column Column) bool { return column.Offset != 0 })
}

// Difference returns a human-readable description of the difference from o; "" if there is none. It ignores offsets, see [Rows.Align],
// AnyTime, and a unit that only one of them has, because the other had no numbers.
func (c Columns) Difference(o Columns) string {
	for i := range min(len(c), len(o)) {
		switch {
		case c[i].Name != o[i].Name:
			return fmt.Sprintf("column %d is %s, not %s", i, stream.Quote(c[i].Name), stream.Quote(o[i].Name))
		case !slices.Equal(c[i].Categories, o[i].Categories):
			return fmt.Sprintf("column %s has other categories", stream.Quote(c[i].Name))
		case c[i].Time != o[i].Time:
			return fmt.Sprintf("column %s is a part of times in one of the tables, and none in the other", stream.Quote(c[i].Name))
		case c[i].Unit != o[i].Unit && c[i].Unit != "" && o[i].Unit != "":
			return fmt.Sprintf("column %s has times in %s, not in %s", stream.Quote(c[i].Name), c[i].Unit, o[i].Unit)
		}
	}
	if len(c) != len(o) {
		return fmt.Sprintf("%d columns, not %d", len(c), len(o))
	}
	return ""
}

// WithUnits returns the columns with the units of o where they have none. The columns do not differ.
func (c Columns) WithUnits(o Columns) Columns {
	c = slices.Clone(c)
	for i := range c {
		c[i].Unit, c[i].AnyTime = cmp.Or(c[i].Unit, o[i].Unit), c[i].AnyTime || o[i].AnyTime
	}
	return c
}

// Lacking returns the names of the table columns that o needs and c does not.
func (c Columns) Lacking(o Columns) (names []string) {
	has := map[string]bool{}
	for _, own := range c {
		has[own.Source()] = true
	}
	for _, other := range o {
		if name := other.Source(); !has[name] {
			has[name] = true
			names = append(names, name)
		}
	}
	return names
}

// Text returns the columns as JSON; "" if there are none.
func (c Columns) Text() string {
	if len(c) == 0 {
		return ""
	}
	return string(wire.JSON(c))
}

// ParseColumns is the inverse of [Columns.Text]. It rejects duplicate names. The error wraps [wire.ErrDamaged].
func ParseColumns(text string) (c Columns, err error) {
	if text == "" {
		return nil, nil
	}
	if err := value.CheckUTF8([]byte(text)); err != nil {
		return nil, fmt.Errorf("%w: columns: %w", wire.ErrDamaged, err)
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("%w: columns %s: %w", wire.ErrDamaged, stream.Quote(text), err)
	}
	return c, c.Check()
}

// Check returns an error, which wraps [wire.ErrDamaged], if a column has no name or a duplicate name.
func (c Columns) Check() error {
	names := map[string]bool{}
	for _, column := range c {
		if names[column.Name] || column.Name == "" {
			return fmt.Errorf("%w: columns: the name %s is empty or occurs twice", wire.ErrDamaged, stream.Quote(column.Name))
		}
		names[column.Name] = true
	}
	return nil
}

// Image is the shape of examples that are images: height, width and channels, in pixels. The features of an example are the rows of
// the image from the top, each with its pixels from the left, each with its channels. The zero value means that examples are not images.
type Image [3]int

// maxImageSide limits each number of a shape, so that their product can't overflow.
const maxImageSide = 1 << 16

// Height returns the number of rows of pixels.
func (i Image) Height() int { return i[0] }

// Width returns the number of pixels of a row.
func (i Image) Width() int { return i[1] }

// Channels returns the number of values of a pixel.
func (i Image) Channels() int { return i[2] }

// Size returns the number of features of an image.
func (i Image) Size() int { return i[0] * i[1] * i[2] }

// String returns the shape in human-readable form, such as 28 × 28 × 1.
func (i Image) String() string { return fmt.Sprintf("%d × %d × %d", i[0], i[1], i[2]) }

// Text returns the shape as JSON, such as [28,28,1]; "" for the zero value.
func (i Image) Text() string {
	if i == (Image{}) {
		return ""
	}
	return string(wire.JSON(i))
}

// ParseImage is the inverse of [Image.Text]. The error wraps [wire.ErrDamaged].
func ParseImage(text string) (i Image, err error) {
	if text == "" {
		return i, nil
	}
	var shape []int
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		return i, fmt.Errorf("%w: shape of images %s: %w", wire.ErrDamaged, stream.Quote(text), err)
	}
	if len(shape) == len(i) {
		i = Image(shape)
	}
	if !i.valid() {
		return Image{}, fmt.Errorf("%w: shape of images %s: expected height, width and channels, such as [28, 28, 1]", wire.ErrDamaged,
			stream.Quote(text))
	}
	return i, nil
}

// Check returns an error unless examples can have the shape, which is zero if they are not images.
func (i Image) Check() error {
	if i != (Image{}) && !i.valid() {
		return fmt.Errorf("shape of images %v: expected height, width and channels, such as [28, 28, 1]", i[:])
	}
	return nil
}

// valid reports whether an image can have the shape.
func (i Image) valid() bool {
	return !slices.ContainsFunc(i[:], func(n int) bool { return n < 1 || n > maxImageSide })
}
