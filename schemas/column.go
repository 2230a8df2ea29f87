package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Column is a column of a table of examples, and says which features it becomes. A column of numbers becomes one feature. A column of
// words becomes a feature for each of its categories, which is 1 in the rows that have this word and else 0, and one more for all other
// words.
type Column struct {
	Name       string
	Categories []string // of a column of words; none: it has numbers
}

// Features returns how many features the column becomes.
func (c Column) Features() int {
	if len(c.Categories) == 0 {
		return 1
	}
	return len(c.Categories) + 1
}

// columnJSON is the JSON of a column of words. That of a column of numbers is its name, as there may be thousands in each message.
type columnJSON struct {
	Name       string   `json:"name"`
	Categories []string `json:"categories"`
}

// MarshalJSON returns the column's name as a JSON string, or an object if it has categories.
func (c Column) MarshalJSON() ([]byte, error) {
	if len(c.Categories) == 0 {
		return json.Marshal(c.Name)
	}
	return json.Marshal(columnJSON(c))
}

// UnmarshalJSON is the inverse of [Column.MarshalJSON].
func (c *Column) UnmarshalJSON(content []byte) error {
	if err := json.Unmarshal(content, &c.Name); err == nil {
		c.Categories = nil
		return nil
	}
	var words columnJSON
	if err := json.Unmarshal(content, &words); err != nil {
		return err
	}
	if len(words.Categories) == 0 {
		return errors.New("a column without categories is a string")
	}
	*c = Column(words)
	return nil
}

// Columns are the columns of a table of examples, in the order of their features. Without columns, nobody knows what the features are
// called.
type Columns []Column

// Features returns how many features the columns become.
func (c Columns) Features() (n int) {
	for _, column := range c {
		n += column.Features()
	}
	return n
}

// Equal reports whether two tables have the same columns in the same order.
func (c Columns) Equal(o Columns) bool {
	return slices.EqualFunc(c, o, func(a, b Column) bool { return a.Name == b.Name && slices.Equal(a.Categories, b.Categories) })
}

// Difference says what is different from o, for people; "" if nothing is.
func (c Columns) Difference(o Columns) string {
	for i := range min(len(c), len(o)) {
		switch {
		case c[i].Name != o[i].Name:
			return fmt.Sprintf("column %d is %s, not %s", i, stream.Quote(c[i].Name), stream.Quote(o[i].Name))
		case !slices.Equal(c[i].Categories, o[i].Categories):
			return fmt.Sprintf("column %s has other categories", stream.Quote(c[i].Name))
		}
	}
	if len(c) != len(o) {
		return fmt.Sprintf("%d columns, not %d", len(c), len(o))
	}
	return ""
}

// Text returns the columns as JSON; "" if there are none.
func (c Columns) Text() string {
	if len(c) == 0 {
		return ""
	}
	return string(mustJSON(c))
}

// ParseColumns is the inverse of [Columns.Text]. It refuses a name that occurs twice. The error wraps [ErrDamaged].
func ParseColumns(text string) (c Columns, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("%w: columns %s: %w", ErrDamaged, stream.Quote(text), err)
	}
	return c, c.Check()
}

// Check returns an error, which wraps [ErrDamaged], if a column has no name or that of another one.
func (c Columns) Check() error {
	names := map[string]bool{}
	for _, column := range c {
		if names[column.Name] || column.Name == "" {
			return fmt.Errorf("%w: columns: the name %s is empty or occurs twice", ErrDamaged, stream.Quote(column.Name))
		}
		names[column.Name] = true
	}
	return nil
}
