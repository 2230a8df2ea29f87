package schemas

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindQuarantine is the kind of a [Quarantined] message.
const KindQuarantine wire.Kind = "quarantine"

// Quarantined is an unusable examples message, with its position and the reason. Other headers of the message are not kept.
type Quarantined struct {
	Topic     string `header:"topic"`                 // of the message
	Partition int    `header:"partition"`             // of the message
	Offset    int64  `header:"offset"`                // of the message
	Reason    string `header:"reason"`                // why it is unusable, truncated to 2,048 bytes
	Key       string `header:"key"`                   // of the message, truncated to 2,048 bytes
	Bytes     int    `header:"bytes"`                 // length of the message's complete value
	Trace     string `header:"traceparent,omitempty"` // of the message, if it has one
	Value     []byte // of the message, truncated to fit
}

// quarantineHeaders is the maximum length of the headers of a quarantined message, in bytes. The reason and the key are
// truncated to fit.
const quarantineHeaders = 8 << 10

// QuarantineReason returns the text of an error as the reason of a quarantined message: valid UTF-8 of at most 2,048
// bytes.
func QuarantineReason(err error) string { return strings.ToValidUTF8(cutHeader(err.Error()), "") }

// cutHeader truncates a text to a quarter of quarantineHeaders.
func cutHeader(text string) string { return text[:min(len(text), quarantineHeaders/4)] }

// Message encodes the message for the quarantine topic.
func (q *Quarantined) Message() wire.Message {
	short := *q
	short.Key = cutHeader(q.Key)
	return wire.Message{
		Key:     q.ID(),
		Value:   q.Value[:min(len(q.Value), wire.MaxMessage-quarantineHeaders)],
		Headers: append([]wire.Header{{Key: "kind", Value: string(KindQuarantine)}}, wire.HeadersOf(&short)...),
	}
}

// ID returns the key of the message on the quarantine topic.
func (q *Quarantined) ID() string { return fmt.Sprintf("%s/%d/%d", q.Topic, q.Partition, q.Offset) }

// QuarantinedOf is the inverse of [Quarantined.Message]. An error wraps [wire.ErrDamaged].
func QuarantinedOf(m wire.Message) (*Quarantined, error) {
	if m.Kind() != KindQuarantine {
		return nil, fmt.Errorf("%w: kind %s, expected %s", wire.ErrDamaged, stream.Quote(string(m.Kind())), KindQuarantine)
	}
	q := &Quarantined{Value: m.Value}
	if err := wire.ReadHeaders(m, q); err != nil {
		return nil, err
	}
	return q, nil
}

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
