package main

import (
	"encoding/csv"
	"strings"
	"testing"
)

// predicted returns the labels that predict says for a file.
func predicted(t *testing.T, args ...string) (labels []string) {
	t.Helper()
	stdout, _ := typed(t, exitDone, append([]string{"predict", "--model", "model"}, args...)...)
	rows := valueOf(csv.NewReader(strings.NewReader(stdout)).ReadAll())(t)
	for _, row := range rows[1:] {
		labels = append(labels, row[0])
	}
	return labels
}
