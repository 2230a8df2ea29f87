package ingest

import "slices"

// vocabulary is a way to give the words of texts, and the phrases that they make, columns.
type vocabulary struct {
	name    string
	meaning string // for the documentation
	most    int    // columns
	found   bool   // it has the phrases of the files to train on, which are read for them first
	// open returns a function that says which column a phrase has, if it has one. The function is not safe for concurrent use.
	open func(o Options) func(phrase []byte) (column int32, known bool)
}

// vocabularies are the vocabularies, in the order of the documentation. The first is the default.
func vocabularies() []vocabulary { return []vocabulary{hashedVocabulary(), countedVocabulary()} }

// vocabulary returns the vocabulary of the texts. Without a name it is the first.
func (o Options) vocabulary() (v vocabulary, known bool) {
	all := vocabularies()
	if o.Words.Vocabulary == "" {
		return all[0], true
	}
	i := slices.IndexFunc(all, func(v vocabulary) bool { return v.name == o.Words.Vocabulary })
	if i < 0 {
		return vocabulary{}, false
	}
	return all[i], true
}

// wantVocabulary lists the vocabularies, for people who gave another one.
func wantVocabulary() string {
	var names []string
	for _, v := range vocabularies() {
		names = append(names, v.name)
	}
	return enumerate(names, "or")
}

// vocabularyMeanings says what each vocabulary is, for the documentation.
func vocabularyMeanings() string {
	var meanings []string
	for _, v := range vocabularies() {
		meanings = append(meanings, "`"+v.name+"` ("+v.meaning+")")
	}
	return enumerate(meanings, "or")
}
