package option

import (
	"reflect"
	"strings"
	"unicode"
)

// KeyOf returns the key of a field: the name that its tag has for YAML, or its own.
func KeyOf(field reflect.StructField) string {
	if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
		return name
	}
	return KeyFor(field.Name)
}

// KeyFor returns the key for the name of a field: data_dir for DataDir, token_url for TokenURL.
func KeyFor(name string) string {
	var key strings.Builder
	letters := []rune(name)
	for i, letter := range letters {
		begins := i > 0 && unicode.IsUpper(letter) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			key.WriteByte('_')
		}
		key.WriteRune(unicode.ToLower(letter))
	}
	return key.String()
}
