package layout

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A word is a run of letters and digits in lower case; its column is its hash, and a phrase is hashed with spaces between its words.
func TestWordsAreCounted(t *testing.T) {
	for _, test := range []struct {
		text    string
		phrases int
		want    []string
	}{
		{"The cat, the CAT!", 1, []string{"the", "cat", "the", "cat"}},
		{"a b c", 2, []string{"a", "b", "c", "a b", "b c"}},
		{"a b c d", 3, []string{"a", "b", "c", "d", "a b", "b c", "c d", "a b c", "b c d"}},
		{"Größe: 3,5 m² — straße\u0301", 1, []string{"größe", "3", "5", "m", "straße\u0301"}},
		{" ,;\n", 3, nil},
		{"", 1, nil},
	} {
		c := NewCounter(WordOptions{Columns: 1 << 20, Phrases: test.phrases})
		for range 2 { // the memory is reused
			var rows examples.SparseRows
			assert.NoError(t, c.Append(&rows, test.text))
			indices, values := rows.Row(0)
			got := map[int32]float32{}
			for i, index := range indices {
				got[index] = values[i]
			}
			want := oracle.HashedColumns(1<<20, test.want...)
			assert.True(t, maps.Equal(got, want) && slices.IsSorted(indices) && len(got) == len(indices),
				"%q: %v, expected %v", test.text, got, want)
		}
	}
	c, one := NewCounter(WordOptions{Columns: 1, Phrases: 1}), examples.SparseRows{}
	err := c.Append(&one, "a b c")
	assert.True(t, err == nil && one.Values[0] == 3, "one column: %v: %v", one, err)
}

// For any text, a row has unique ascending columns, and the counts add up to the number of words and phrases.
func FuzzWords(f *testing.F) {
	f.Add("Buy now, buy NOW", uint8(2), uint8(7))
	f.Add("Straße \u0301 ½", uint8(5), uint8(1))
	f.Add("\xff", uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, text string, phrases, columns uint8) {
		c := NewCounter(WordOptions{Columns: int(columns) + 1, Phrases: int(phrases)%MaxPhrases + 1})
		var rows examples.SparseRows
		if err := c.Append(&rows, text); err != nil {
			assert.Need(t, !utf8.ValidString(text), "%v", err)
			return
		}
		words, want, sum := 0, 0, float32(0)
		for range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
				!unicode.IsMark(r)
		}) {
			words++
			want += min(words, c.most)
		}
		for i, column := range rows.Indices {
			assert.Need(t, column >= 0 && int(column) <= int(columns) && (i == 0 || column > rows.Indices[i-1]) && rows.Values[i] >= 1,
				"%q: columns %v, counts %v", text, rows.Indices, rows.Values)
			sum += rows.Values[i]
		}
		assert.Need(t, int(sum) == want && len(rows.Ends) == 1 && rows.Ends[0] == len(rows.Values),
			"%q: %v words and phrases, expected %d", text, sum, want)
	})
}

// A vocabulary that exceeds the limit is an error of the text with the first excess phrase.
func TestVocabularyThatDoesNotFit(t *testing.T) {
	p := foundPhrases{phrases: phrases{most: 2}, limit: 5, found: map[string]*textsOf{}}
	for range 2 {
		assert.NoError(t, p.add("one two three"))
	}
	want := "more than 5 different words and phrases: set examples.words.vocabulary to hashed, or lower examples.words.phrases"
	err := p.add("two four")
	assert.True(t, err != nil && err.Error() == want && len(p.found) == 5, "%v, expected %s", err, want)
}
