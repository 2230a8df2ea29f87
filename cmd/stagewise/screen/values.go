package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// none stands for a value that does not exist.
const none = "-"

// Percent formats an error in percent; nil stands for none.
func Percent(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.2f %%", *v)
}

// loss formats a mean loss; nil stands for none.
func loss(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.4f", *v)
}

// date formats a time as scripts sort it.
func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Amount formats a number of bytes, such as 42 MB.
func Amount(bytes int64) string { return humanize.Bytes(uint64(bytes)) }

// listOf lists numbers for people.
func listOf(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ", ")
}
