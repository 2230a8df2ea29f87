package vocabulary

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas/wire"
)

const (
	// MaxVocabulary is the maximum number of phrases of a counted vocabulary, because each version includes them.
	MaxVocabulary = 1 << 20
	// maxPhrasesFound is the maximum number of different phrases of the files for a vocabulary. They take about 500 MB.
	maxPhrasesFound = 1 << 22
)

// Counting returns Options with the words and phrases of a counted vocabulary, in column order, from a source or a
// version. Without any, it returns the Options unchanged.
func (t Options) Counting(phrases []string) Options {
	if len(phrases) == 0 {
		return t
	}
	t.Vocabulary, t.counted, t.places = Counted, phrases, make(map[string]int32, len(phrases))
	for i, phrase := range phrases {
		t.places[phrase] = int32(i)
	}
	return t
}

// Counted returns the phrases set with [Options.Counting]; nil without them.
func (t Options) Counted() []string { return t.counted }

// NewPhraseTexts returns empty PhraseTexts.
func NewPhraseTexts(how Options) *PhraseTexts {
	return &PhraseTexts{phrases: phrases{most: how.Phrases}, limit: maxPhrasesFound}
}

// PhraseTexts counts the texts in which each phrase occurs.
type PhraseTexts struct {
	phrases
	limit int            // maximum number of different phrases
	at    map[string]int // index of a phrase in found
	found []phraseText
	texts int // number of texts read
}

// phraseText is a phrase.
type phraseText struct {
	phrase string
	texts  int // number of texts with it
	last   int // the last of them
}

// Add adds the phrases of a text.
func (p *PhraseTexts) Add(text string) error {
	if p.at == nil {
		p.at = map[string]int{}
	}
	p.texts++
	return p.each(text, func(phrase []byte) error {
		at, known := p.at[string(phrase)]
		if !known {
			if at = len(p.found); at == p.limit {
				return fmt.Errorf("more than %d different words and phrases: set examples.words.vocabulary to hashed, or "+
					"lower examples.words.phrases", p.limit)
			}
			own := string(phrase)
			p.at[own], p.found = at, append(p.found, phraseText{phrase: own})
		}
		if f := &p.found[at]; f.last != p.texts {
			f.last = p.texts
			f.texts++
		}
		return nil
	})
}

// Vocabulary returns the phrases in the most texts, in alphabetical order. Ties are broken alphabetically. It is an error
// if there are none.
func (p *PhraseTexts) Vocabulary(most int) ([]string, error) {
	if len(p.found) == 0 {
		return nil, errors.New("no text has a word")
	}
	slices.SortFunc(p.found, func(a, b phraseText) int {
		return cmp.Or(cmp.Compare(b.texts, a.texts), strings.Compare(a.phrase, b.phrase))
	})
	kept := make([]string, min(len(p.found), most))
	for i := range kept {
		kept[i] = p.found[i].phrase
	}
	slices.Sort(kept)
	return kept, nil
}

// Digest returns the digest of a counted vocabulary, which is part of a source's ID; "": there is none.
func (t Options) Digest() wire.Digest {
	if t.counted == nil {
		return ""
	}
	return wire.DigestJSON(t.counted)
}
