package schemas

import (
	"regexp"
	"strings"
)

// Reasons quote the values of rows, and also names and counts, which are not values.
var (
	quoted     = regexp.MustCompile(`[a-z]+://[^\s"]+|"(?:[^"\\]|\\.)*"?|[-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?`)
	beforeName = regexp.MustCompile(`(?:columns?|(?:object|message|schema|table|file) has|\bat|\bis in|one of|under|named|` +
		`examples\.[a-z_.]+:)(?: [0-9]+ \()? ?$`)
	betweenName = regexp.MustCompile(`^(?:,|,? and|,? or) $`)
	beforeCount = regexp.MustCompile(`(?:^|\W)(?:rows(?: [0-9]+,)*|row|columns?|feature|lines?|bytes?|offset|index|id|schema(?: ID)?|` +
		`from|to|most|least|expected|than|has|after|before|first|answers) $`)
	afterCount = regexp.MustCompile(`^ (?:more|rows?|columns?|features|targets|values|labels?|items|fields|characters|digits|bytes)\b`)
)

// WithoutValues returns the reason of a quarantined message without the values of its rows: names of columns, and counts, stay. It is a
// rule about text, because reasons come from many decoders: text that it does not recognize counts as a value.
func WithoutValues(reason string) string {
	var b strings.Builder
	end, named := 0, false // the end of the previous token, and whether it is the name of a column
	for _, at := range quoted.FindAllStringIndex(reason, -1) {
		from, to := at[0], at[1]
		before, token := reason[end:from], reason[from:to]
		b.WriteString(before)
		keep := false
		switch {
		case strings.Contains(token, "://"): // the address of a registry
			keep = true
		case token[0] == '"':
			named = beforeName.MatchString(reason[:from]) || named && betweenName.MatchString(before)
			keep = named
		case from > 0 && isWord(reason[from-1]): // a part of a word, such as float32 or UTF-8
			keep = true
		default:
			keep = beforeCount.MatchString(reason[:from]) || afterCount.MatchString(reason[to:])
		}
		if !keep {
			token = "…" + token[len(strings.TrimRight(token, ",.")):] // punctuation after a number
			if reason[from] == '"' {
				token = "…"
			}
		}
		b.WriteString(token)
		end = to
	}
	b.WriteString(reason[end:])
	return b.String()
}

// isWord reports whether a byte is a part of a word.
func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
