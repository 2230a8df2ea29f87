package outcome

import (
	"errors"
	"testing"
)

// Keys of the same value are the same text in all encodings.
func TestReadKey(t *testing.T) {
	for format, keys := range map[string]map[string]string{
		KeyAuto: {
			"1001": "1001", `"1001"`: "1001", `{"id":1001}`: "1001", `{"id":"1001"}`: "1001", "\x00\x00\x00\x00\x00\x00\x03\xe9": "1001",
			"\x00\x00\x03\xe9": "1001", "\x00\x00\x00\x00\x07\x081001": "1001", "\x00\x00\x00\x00\x07\xd2\x0f": "1001",
			"\x00\x00\x00\x00\x07\"1001\"": "1001", "\xff\xff\xff\xff\xff\xff\xff\xff": "-1",
			"abc": "abc", "12345678": "12345678", "5e-7 a": "5e-7 a", "{a}": "{a}", `"`: `"`, " ": " ", "größe": "größe", `{"a":1,"b":2}`: `{"a":1,"b":2}`,
			"\x19\x3c\x00\x12\x00\x00\xff\x01": "1818328426860314369",
		},
		KeyText: {`"1001"`: `"1001"`},
		KeyJSON: {`"1001"`: "1001", "1001": "1001"},
		KeyLong: {"12345678": "3544952156018063160"},
		KeyAvro: {"\x00\x00\x00\x00\x07\xf5\xe1\x00": ""},
	} {
		for key, want := range keys {
			got, err := ReadKey(key, format)
			if bad := errors.As(err, new(*KeyError)); got != want || bad != (want == "") {
				t.Errorf("%s: %q is read as %q, expected %q: %v", format, key, got, want, err)
			}
		}
	}
}
