package vocabulary

import "testing"

// A vocabulary that exceeds the limit is an error of the text with the first excess phrase.
func TestVocabularyThatDoesNotFit(t *testing.T) {
	p := PhraseTexts{phrases: phrases{most: 2}, limit: 5}
	for range 2 {
		if err := p.Add("one two three"); err != nil {
			t.Fatal(err)
		}
	}
	want := "more than 5 different words and phrases: set examples.words.vocabulary to hashed, or lower examples.words.phrases"
	if err := p.Add("two four"); err == nil || err.Error() != want || len(p.found) != 5 {
		t.Errorf("%v, expected %s", err, want)
	}
}
