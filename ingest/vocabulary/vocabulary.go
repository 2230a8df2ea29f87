package vocabulary

import (
	"slices"

	"github.com/stagewise/stagewise/internal/option"
)

// vocabulary is a way to assign columns to the words of texts and their phrases.
type vocabulary struct {
	Name    string
	meaning string // for the documentation
	most    int    // maximum number of columns
	found   bool   // it has the phrases of the training files, which are read for it first
	// open returns a function from a phrase to its column, if it has one. The function is not safe for concurrent use.
	open func(how Options) func(phrase []byte) (column int32, known bool)
}

// vocabularies are the vocabularies, in the order of the documentation. The first is the default.
func vocabularies() []vocabulary { return []vocabulary{HashedVocabulary(), CountedVocabulary()} }

// vocabulary returns the vocabulary of the texts. The default is the first.
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

// IsVocabulary allows the names of vocabularies.
func IsVocabulary() option.Rule {
	names := []string{""} // the first
	for _, v := range vocabularies() {
		names = append(names, v.Name)
	}
	return option.OneOf(names...)
}

// VocabularyMeanings describes the vocabularies, for the documentation.
func VocabularyMeanings() string {
	var meanings []string
	for _, v := range vocabularies() {
		meanings = append(meanings, "`"+v.Name+"` ("+v.meaning+")")
	}
	return option.Enumerate(meanings, "or")
}
