package planning

import (
	"fmt"
	"reflect"
	"strings"
)

// Differences lists the fields in which two structs of the same type differ, by JSON name, with both values: "scale unit,
// this run has none". who describes the struct here. The fields must be comparable.
func Differences[S any](there, here S, who string) string {
	var list []string
	a, b := reflect.ValueOf(there), reflect.ValueOf(here)
	for i := range a.NumField() {
		if x, y := a.Field(i).Interface(), b.Field(i).Interface(); x != y {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			list = append(list, fmt.Sprintf("%s %v, %s has %v", name, x, who, y))
		}
	}
	return strings.Join(list, "; ")
}
