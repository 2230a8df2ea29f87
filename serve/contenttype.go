package serve

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// Content types of rows and answers.
const (
	typeJSON  = "application/json"
	typeArrow = "application/vnd.apache.arrow.stream"
)

// contentType returns the content type of a request's rows.
func contentType(r *http.Request) (string, error) {
	sent := r.Header.Get("Content-Type")
	name, parameters, err := mime.ParseMediaType(sent)
	charset, isSet := parameters["charset"]
	switch {
	case err == nil && (name == typeJSON || name == typeArrow) && isSet && !strings.EqualFold(charset, "utf-8"):
		return "", refuse(http.StatusUnsupportedMediaType, "charset %.40q: expected utf-8", charset)
	case err == nil && (name == typeJSON || name == typeArrow):
		return name, nil
	case sent == "":
		return "", refuse(http.StatusUnsupportedMediaType, "no Content-Type: expected %s or %s", typeJSON, typeArrow)
	}
	return "", refuse(http.StatusUnsupportedMediaType, "Content-Type %.80q: expected %s or %s", sent, typeJSON, typeArrow)
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
