package outcome

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Encodings of message keys. A row and its outcome may have different ones: a key is read as the text of its value.
const (
	KeyAuto = "auto"
	KeyText = "text"
	KeyJSON = "json"
	KeyLong = "long" // a big-endian integer of 4 or 8 bytes, as of Java's serializers
	KeyAvro = "avro" // a string or an integer after the prefix of a schema registry, or a record with one such field
)

// ReadKey returns the text of a message key. Keys of 8 bytes with the ID of one of the schemas are Avro: see [SchemasOf].
func ReadKey(key, format string, schemas []int) (string, error) {
	readers := map[string]func(string) (string, bool){KeyJSON: jsonKey, KeyLong: longKey, KeyAvro: registryKey}
	switch format {
	case KeyText:
		return key, nil
	case KeyAuto, "":
		text, _ := detect(key, schemas)
		return text, nil
	}
	text, ok := readers[format](key)
	if !ok {
		return "", fmt.Errorf("the message key has the bytes % x, expected %s (examples.outcome.key_format)", key[:min(len(key), 32)], format)
	}
	return text, nil
}

// TextOf returns the text of a key in the encoding that KeyAuto recognizes: the key itself if it recognizes none.
func TextOf(key string) string {
	text, _ := detect(key, nil)
	return text
}

// Texts returns the texts that a key may have: TextOf, and that of Avro, as which it also reads integers of 8 bytes.
func Texts(key string) []string {
	texts := []string{TextOf(key)}
	if text, ok := registryKey(key); ok {
		texts = append(texts, text)
	}
	return texts
}

// KeyEncoding returns the encoding of a key that KeyAuto recognizes: keys of the same value and the same encoding have the same bytes.
func KeyEncoding(key string, schemas []int) string {
	switch _, format := detect(key, schemas); {
	case format == KeyLong:
		return fmt.Sprint(format, len(key))
	case format == KeyJSON:
		return format + withoutValues(key)
	case format == KeyAvro:
		format += key[:registryPrefix]
		if _, ok := jsonKey(key[registryPrefix:]); ok {
			format += withoutValues(key[registryPrefix:])
		}
		return format
	}
	return KeyText
}

// minFirst is the minimum number of different first bytes after the ID of a schema from which SchemasOf concludes.
const minFirst = 8

// SchemasOf returns the IDs of the schemas that the keys of a topic have, in order. A key of 8 bytes may be Avro, or an integer whose upper
// bytes look like the ID of a schema. It is Avro if a key of another length has the same ID, or if many have it, all may be Avro, and the
// first byte after the ID, with the lowest bits of a number in Avro, differs more often than the last, with those of an integer.
func SchemasOf(keys []string) (ids []int) {
	type found struct {
		certain, long bool
		first, last   map[byte]bool
	}
	all := map[int]*found{}
	for _, key := range keys {
		id, ok := schemaOf(key)
		if !ok {
			continue
		}
		f := all[id]
		if f == nil {
			f = &found{first: map[byte]bool{}, last: map[byte]bool{}}
			all[id] = f
		}
		_, avro := registryKey(key)
		switch {
		case len(key) != 8:
			f.certain = f.certain || avro
		case avro:
			f.first[key[registryPrefix]], f.last[key[len(key)-1]] = true, true
		default:
			f.long = true
		}
	}
	for id, f := range all {
		if !f.long && (f.certain || len(f.first) >= minFirst && len(f.first) > len(f.last)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// detect returns the text of a key, and its format. A key of no other format is its own text.
func detect(key string, schemas []int) (text, format string) {
	if key == "" {
		return key, KeyText
	}
	printable := isText(key)
	if first := key[0]; first != '"' && first != '{' && printable { // most keys
		return key, KeyText
	}
	if text, ok := registryKey(key); ok {
		// An integer of 8 bytes may look like Avro.
		_, notNumber := strconv.ParseInt(text, 10, 64)
		if id, _ := schemaOf(key); len(key) != 8 || isText(text) && notNumber != nil || slices.Contains(schemas, id) {
			return text, KeyAvro
		}
	}
	if text, ok := jsonKey(key); ok {
		return text, KeyJSON
	}
	if text, ok := longKey(key); ok && !printable {
		return text, KeyLong
	}
	return key, KeyText
}

func isText(key string) bool {
	for _, r := range key {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// jsonKey reads a string, a number, or an object: one with a single member as its value, others as JSON with sorted members. An object with
// a schema and a payload is its payload.
func jsonKey(key string) (string, bool) {
	d := json.NewDecoder(bytes.NewReader([]byte(key)))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return "", false
	}
	object, _ := v.(map[string]any)
	_, described := object["schema"]
	if payload, ok := object["payload"]; ok && described && len(object) == 2 { // as Kafka Connect writes it
		v = payload
		object, _ = v.(map[string]any)
	}
	if len(object) == 1 {
		for _, v = range object {
		}
	}
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case map[string]any:
		sorted, err := json.Marshal(v)
		return string(sorted), err == nil
	}
	return "", false
}

var (
	jsonText   = regexp.MustCompile(`((?:^|:)\s*)"[^"\\]*"`) // without escapes
	jsonNumber = regexp.MustCompile(`((?:^|:)\s*)[\w.+-]+`)
)

// withoutValues returns JSON with the same value for all texts without escapes, and for all numbers.
func withoutValues(key string) string {
	return jsonNumber.ReplaceAllString(jsonText.ReplaceAllString(key, `$1""`), "${1}0")
}

// longKey reads a big-endian integer.
func longKey(key string) (string, bool) {
	switch b := []byte(key); len(b) {
	case 4:
		return strconv.FormatInt(int64(int32(binary.BigEndian.Uint32(b))), 10), true
	case 8:
		return strconv.FormatInt(int64(binary.BigEndian.Uint64(b)), 10), true
	}
	return "", false
}

const registryPrefix = 5 // bytes

// schemaOf returns the ID of a schema in the prefix of a schema registry: a zero and the ID.
func schemaOf(key string) (id int, ok bool) {
	if len(key) <= registryPrefix || key[0] != 0 {
		return 0, false
	}
	id = int(binary.BigEndian.Uint32([]byte(key[1:registryPrefix])))
	return id, id != 0
}

// registryKey reads a key after the prefix of a schema registry. Avro's strings and integers need no schema: the length of a string says
// where it ends. A text in JSON of 18 bytes may look like a string of Avro, but then the string has a quote at its end.
func registryKey(key string) (string, bool) {
	if _, ok := schemaOf(key); !ok {
		return "", false
	}
	body := key[registryPrefix:]
	n, read := binary.Varint([]byte(body)) // zigzag, as Avro's
	quoted := body[0] == '"' && body[len(body)-1] == '"'
	switch {
	case !quoted && read > 0 && n > 0 && int64(len(body)-read) == n && utf8.ValidString(body[read:]):
		return body[read:], true
	case read == len(body) && (read == 1 || body[read-1] != 0):
		return strconv.FormatInt(n, 10), true
	}
	return jsonKey(body)
}
