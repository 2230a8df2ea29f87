package serve

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas/value"
)

const headerType = "Content-Type"

// The headers of a request that select the contents of the answer, as the members do.
const (
	headerTop           = "Stagewise-Top"
	headerClasses       = "Stagewise-Classes"
	headerContributions = "Stagewise-Contributions"
)

// asked is the requested contents of an answer besides the label of each row.
type asked struct {
	top     int  // number of most probable labels; 0: the probability of each, in label order
	classes bool // all labels, in the order of the probabilities

	contributions int // number of columns that add the most to each score; 0: no contributions

	// of the Open Inference Protocol
	id      []byte   // of the request, as JSON; nil: none
	binary  bool     // outputs are binary, if they do not say otherwise
	tensors []output // and which of them are asked for
}

// askedBy returns the contents requested in headers.
func askedBy(h http.Header) (a asked, err error) {
	for key, set := range map[string]func(value.Cell) error{headerTop: a.setTop, headerContributions: a.setContributions} {
		if text := h.Get(key); text != "" {
			if err := set([]byte(text)); err != nil {
				return a, refuse(http.StatusBadRequest, "%s: %v", key, err)
			}
		}
	}
	if text := h.Get(headerClasses); text != "" {
		if a.classes, err = strconv.ParseBool(text); err != nil {
			return a, refuse(http.StatusBadRequest, "%s: %.20q: expected true or false", headerClasses, text)
		}
	}
	return a, nil
}

// setTop and setContributions set the contents from the text of a member or a header.
func (a *asked) setTop(text value.Cell) error { return setNumber(&a.top, text, "a number of labels") }

func (a *asked) setContributions(text value.Cell) error {
	return setNumber(&a.contributions, text, "a number of columns")
}

func setNumber(to *int, text value.Cell, want string) (err error) {
	if *to, err = strconv.Atoi(string(text)); err != nil || *to < 1 {
		err = fmt.Errorf("%.20s: expected %s, at least 1", text, want)
	}
	return err
}

// contributionBytes is the smallest size of a contribution in an answer.
const contributionBytes = len(`{"column":"","value":0},`)

// check returns an error for contents that a version does not have, or that do not fit in an answer.
func (a asked) check(v *version, maxAnswer int64) error {
	if a.top > 0 && v.predictsNumbers() {
		return refuse(http.StatusBadRequest, "%q: the model predicts numbers, which have no probabilities", keyTop)
	}
	if a.contributions == 0 {
		return nil
	}
	if most := maxAnswer / int64(contributionBytes*len(v.Labels())); int64(a.contributions) > most {
		return refuse(http.StatusBadRequest, "%q: %d: expected at most %d, which are the most that an answer may have for a row",
			keyContributions, a.contributions, most)
	}
	if err := v.CheckContributions(); err != nil {
		return refuse(http.StatusBadRequest, "%q: %v", keyContributions, err)
	}
	return nil
}

// mostRows returns the maximum number of rows that are predicted together.
func (a asked) mostRows(v *version) int {
	k, width := len(v.Labels()), max(v.Width(), 1)
	if a.contributions > 0 {
		k *= min(width, tileValues)
	}
	return max(1, min(tileRows, tileValues/k, (1<<20)/width))
}

// values returns the number of values per row in the answer of a version.
func (a asked) values(v *version) int {
	k := len(v.Labels())
	return min(cmp.Or(a.top, k), k)
}

// mostProbable returns the top classes with the largest probabilities, largest first, ties in class order. It uses the
// memory of order.
func mostProbable(order []int32, probabilities []float32, top int) []int32 {
	order = order[:0]
	for c := range probabilities {
		order = append(order, int32(c))
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(probabilities[b], probabilities[a]) })
	return order[:min(top, len(order))]
}

// Content types of rows and answers.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
	typeBytes = "application/octet-stream"
)

// The protocols whose JSON is not that of /predict.
const (
	openInference = "the Open Inference Protocol"
	mlflow        = "MLflow"
)

// contentType returns the content type of a request's rows, which must be one of those expected.
func contentType(r *http.Request, expected ...string) (string, error) {
	sent := r.Header.Get(headerType)
	name, parameters, err := mime.ParseMediaType(sent)
	charset, isSet := parameters["charset"]
	known, want := err == nil && slices.Contains(expected, name), strings.Join(expected, " or ")
	switch {
	case known && isSet && !strings.EqualFold(charset, "utf-8"):
		return "", refuse(http.StatusUnsupportedMediaType, "charset %.40q: expected utf-8", charset)
	case known:
		return name, nil
	case sent == "":
		return "", refuse(http.StatusUnsupportedMediaType, "no Content-Type: expected %s", want)
	}
	return "", refuse(http.StatusUnsupportedMediaType, "Content-Type %.80q: expected %s", sent, want)
}

// answerType returns the content type of the answer: as accepted by the client, or else that of the rows.
func answerType(r *http.Request, sent string) (string, error) {
	accepted := strings.Join(r.Header.Values("Accept"), ",")
	if accepted == "" {
		return sent, nil
	}
	var types []string
	for part := range strings.SplitSeq(accepted, ",") {
		name, _, _ := strings.Cut(part, ";")
		types = append(types, strings.ToLower(strings.TrimSpace(name)))
	}
	other := map[string]string{typeJSON: typeArrow, typeArrow: typeJSON}[sent]
	switch {
	case slices.Contains(types, sent) || slices.Contains(types, "*/*") || slices.Contains(types, "application/*"):
		return sent, nil
	case slices.Contains(types, other):
		return other, nil
	}
	return "", refuse(http.StatusNotAcceptable, "Accept %.80q: expected %s or %s", accepted, typeJSON, typeArrow)
}
