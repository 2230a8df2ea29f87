package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

const (
	// maxVocabulary bounds the phrases of a counted vocabulary: each version has them all.
	maxVocabulary = 1 << 20
	// maxPhrasesFound bounds the different phrases of the files that a vocabulary is made of. So many take about 500 MB.
	maxPhrasesFound = 1 << 22
)

// countedVocabulary gives a column to each phrase that the files to train on have, in the order of the alphabet; if there are too many, to those
// that are in most texts.
func countedVocabulary() vocabulary {
	return vocabulary{
		name:    "counted",
		meaning: "each word of `train` has its own column, or if they are more than `columns` those in most texts; the words are part of each version, and others are passed over",
		most:    maxVocabulary,
		found:   true,
		open: func(o Options) func(phrase []byte) (int32, bool) {
			return func(phrase []byte) (int32, bool) {
				column, known := o.places[string(phrase)]
				return column, known
			}
		},
	}
}

// WithVocabulary returns the options with the words and phrases of a counted vocabulary, in the order of their columns: those of a Source or of a
// version. Without any, it returns the options as they are.
func (o Options) WithVocabulary(phrases []string) Options {
	if len(phrases) == 0 {
		return o
	}
	o.phrases, o.places = phrases, make(map[string]int32, len(phrases))
	for i, phrase := range phrases {
		o.places[phrase] = int32(i)
	}
	return o
}

// CountedVocabulary returns what [Options.WithVocabulary] got; nil without it.
func (o Options) CountedVocabulary() []string { return o.phrases }

// phraseTexts counts the texts that have each phrase.
type phraseTexts struct {
	phrases
	limit int            // of different phrases
	at    map[string]int // a phrase's place in found
	found []phraseText
	texts int // that were read
}

// phraseText is a phrase.
type phraseText struct {
	phrase string
	texts  int // that have it
	last   int // of them
}

// add adds the phrases of a text.
func (p *phraseTexts) add(text string) error {
	if p.at == nil {
		p.at = map[string]int{}
	}
	p.texts++
	return p.each(text, func(phrase []byte) error {
		at, known := p.at[string(phrase)]
		if !known {
			if at = len(p.found); at == p.limit {
				return fmt.Errorf("more than %d different words and phrases: set examples.words.vocabulary to hashed, or examples.words.phrases to less", p.limit)
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

// vocabulary returns the phrases that are in most texts, in the order of the alphabet. Of phrases that are in as many texts, the first of the
// alphabet come first. It is an error if there are none.
func (p *phraseTexts) vocabulary(most int) ([]string, error) {
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

// digestOfVocabulary returns the digest of a counted vocabulary, which is part of a source's ID; "": there is none.
func (o Options) digestOfVocabulary() schemas.Digest {
	if o.phrases == nil {
		return ""
	}
	return schemas.DigestJSON(o.phrases)
}
