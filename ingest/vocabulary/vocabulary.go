package vocabulary

import (
	"slices"

	"github.com/stagewise/stagewise/config/option"
)

// vocabulary is a way to give the words of texts, and the phrases that they make, columns.
type vocabulary struct {
	Name    string
	meaning string // for the documentation
	most    int    // columns
	found   bool   // it has the phrases of the files to train on, which are read for them first
	// open returns a function that says which column a phrase has, if it has one. The function is not safe for concurrent use.
	open func(how Options) func(phrase []byte) (column int32, known bool)
}

// vocabularies are the vocabularies, in the order of the documentation. The first is the default.
func vocabularies() []vocabulary { return []vocabulary{HashedVocabulary(), CountedVocabulary()} }

// vocabulary returns the vocabulary of the texts. Without a name it is the first.
func (t Options) vocabulary() (v vocabulary, known bool) {
	all := vocabularies()
	if t.Vocabulary == "" {
		return all[0], true
	}
	i := slices.IndexFunc(all, func(v vocabulary) bool { return v.Name == t.Vocabulary })
	if i < 0 {
		return vocabulary{}, false
	}
	return all[i], true
}

// wantVocabulary lists the vocabularies, for people who gave another one.
func wantVocabulary() string {
	var names []string
	for _, v := range vocabularies() {
		names = append(names, v.Name)
	}
	return option.Enumerate(names, "or")
}

// VocabularyMeanings says what each vocabulary is, for the documentation.
func VocabularyMeanings() string {
	var meanings []string
	for _, v := range vocabularies() {
		meanings = append(meanings, "`"+v.Name+"` ("+v.meaning+")")
	}
	return option.Enumerate(meanings, "or")
}
