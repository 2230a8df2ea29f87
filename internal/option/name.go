package option

import (
	"reflect"
	"strings"
	"unicode"
)

// KeyOf returns the key of a field: the name that its tag has for YAML, or its own, as in data_dir for DataDir and token_url for TokenURL.
func KeyOf(field reflect.StructField) string {
	if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
		return name
	}
	var key strings.Builder
	letters := []rune(field.Name)
	for i, letter := range letters {
		begins := i > 0 && unicode.IsUpper(letter) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			key.WriteByte('_')
		}
		key.WriteRune(unicode.ToLower(letter))
	}
	return key.String()
}
