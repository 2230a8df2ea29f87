package value

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the maximum depth of objects and arrays, which is that of package json.
const maxDepth = 10_000

// scan returns the end of the JSON value that begins at an index. ok is false if the text is not JSON, or has an unpaired
// surrogate, and end is then the position of the error. It takes a fraction of the time of
// [json.Valid], which matters for requests with many numbers.
func scan(text []byte, at, depth int) (end int, ok bool) {
	if at == len(text) {
		return at, false
	}
	switch c := text[at]; {
	case c == '{' || c == '[':
		return validList(text, at, depth)
	case c == '"':
		return validString(text, at)
	case c == '-' || c-'0' <= 9:
		return validNumber(text, at)
	}
	for _, literal := range []string{"null", "true", "false"} {
		if to := at + len(literal); to <= len(text) && string(text[at:to]) == literal {
			return to, true
		}
	}
	return at, false
}

// validList returns the end of an object or an array.
func validList(text []byte, at, depth int) (end int, ok bool) {
	object, closing := text[at] == '{', text[at]+2 // in ASCII
	if at = space(text, at+1); depth == 0 || at == len(text) {
		return at, false
	}
	if text[at] == closing {
		return at + 1, true
	}
	for {
		if object {
			if at == len(text) || text[at] != '"' {
				return at, false
			}
			if at, ok = validString(text, at); !ok {
				return at, false
			}
			if at = space(text, at); at == len(text) || text[at] != ':' {
				return at, false
			}
			at = space(text, at+1)
		}
		for !object { // over small whole numbers, such as pixels
			to := validDigits(text, at)
			if to == at || to == len(text) || text[to] != ',' || text[at] == '0' && to > at+1 {
				break
			}
			at = to + 1
		}
		at = space(text, at)
		if at, ok = scan(text, at, depth-1); !ok {
			return at, false
		}
		if at = space(text, at); at == len(text) || text[at] != ',' {
			return at + 1, at < len(text) && text[at] == closing
		}
		at = space(text, at+1)
	}
}

// validString returns the end of a string.
func validString(text []byte, at int) (end int, ok bool) {
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1, true
		case c < ' ':
			return at, false
		case c != '\\':
		case at+1 == len(text):
			return at, false
		case text[at+1] == 'u':
			n := validEscape(text[at:])
			if n == 0 {
				return at, false
			}
			at += n - 1
		default:
			switch at++; text[at] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return at, false
			}
		}
	}
	return at, false
}

// validEscape returns the length of the escape \uXXXX at the beginning of a text, or of both of a pair of surrogates; 0: there is none.
func validEscape(text []byte) int {
	first, ok := escaped(text)
	if ok && !utf16.IsSurrogate(first) {
		return 6
	}
	if second, paired := escaped(text[min(6, len(text)):]); ok && paired && utf16.DecodeRune(first, second) != utf8.RuneError {
		return 12
	}
	return 0
}

// escaped returns the code unit of the escape \uXXXX at the beginning of a text.
func escaped(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(n), err == nil
}

// validNumber returns the end of a number.
func validNumber(text []byte, at int) (end int, ok bool) {
	if text[at] == '-' {
		at++
	}
	from := at
	if at = validDigits(text, at); at == from || text[from] == '0' && at > from+1 {
		return at, false
	}
	if at < len(text) && text[at] == '.' {
		from = at + 1
		if at = validDigits(text, from); at == from {
			return at, false
		}
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		if at++; at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		from = at
		if at = validDigits(text, from); at == from {
			return at, false
		}
	}
	return at, true
}

// validDigits returns the end of the digits at an index.
func validDigits(text []byte, at int) int {
	for at < len(text) && text[at]-'0' <= 9 {
		at++
	}
	return at
}
