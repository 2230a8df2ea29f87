package examples

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Columns survive their text, and count their features.
func TestColumns(t *testing.T) {
	for text, features := range map[string]int{
		"":                  0,
		`["a","b c","\"é"]`: 3,
		`["a",{"name":"colour","categories":["blue","red"]}]`:                               4,
		`[{"name":"x","categories":[""]}]`:                                                  2,
		`[{"name":"t.hour","time":"hour"},{"name":"t.age","offset":-20000.5,"time":"age"}]`: 2,
		`[{"name":"t.hour","time":"hour","unit":"ms"}]`:                                     1,
	} {
		columns, err := ParseColumns(text)
		if err != nil || columns.Features() != features || columns.Text() != text {
			t.Errorf("%s: %v of %d features, %v", text, columns.Text(), columns.Features(), err)
		}
		if again, _ := ParseColumns(text); !reflect.DeepEqual(again, columns) || again.Difference(columns) != "" {
			t.Errorf("%s differs from itself: %s", text, again.Difference(columns))
		}
	}
	for _, text := range []string{"a", "{}", `["a","a"]`, `[""]`, `[{"name":"a"}]`, `[1]`, `[{"name":"a","categories":[]}]`,
		`[{"name":"a","time":"hour"}]`, `[{"name":".hour","time":"hour"}]`, `[{"name":"a.second","time":"second"}]`,
		`[{"name":"a.hour","time":"hour","categories":["x"]}]`,
		`[{"name":"a.hour","time":"hour","unit":"auto"}]`, `[{"name":"a","unit":"ms"}]`} {
		if columns, err := ParseColumns(text); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v, %v", text, columns, err)
		}
	}
}

// The difference between two tables says which column it is.
func TestColumnsDifference(t *testing.T) {
	table := Columns{{Name: "size"}, {Name: "colour", Categories: []string{"red"}}}
	for want, other := range map[string]Columns{
		`column 0 is "width", not "size"`:      {{Name: "width"}, table[1]},
		`column "colour" has other categories`: {table[0], {Name: "colour", Categories: []string{"blue"}}},
		`1 columns, not 2`:                     table[:1],
		`column "size" is a part of times in one of the tables, and none in the other`: {{Name: "size", Time: "hour"}, table[1]},
		`column 1 is "red", not "colour"`:                                              {table[0], {Name: "red"}},
	} {
		if got := other.Difference(table); got != want || reflect.DeepEqual(other, table) {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	ms, s, none := Columns{PartOf("t", "hour", value.UnitMilliseconds)}, Columns{PartOf("t", "hour", value.UnitSeconds)}, Columns{PartOf("t", "hour", "")}
	if got, want := s.Difference(ms), `column "t.hour" has times in s, not in ms`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if none.Difference(ms) != "" || ms.Difference(none) != "" || none.WithUnits(ms)[0].Unit != ms[0].Unit || ms.WithUnits(s)[0].Unit != ms[0].Unit {
		t.Error("columns without numbers differ from others, or have other units")
	}
	if long := strings.Repeat("x", 1000); len(Columns{{Name: long}}.Difference(table)) > 200 {
		t.Error("a long name is not cut")
	}
}
