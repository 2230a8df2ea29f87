package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// What a model of two classes is judged by is on the screen, in what runs show prints and on its page; and that its error
// is not clearly better than that of predicting the common class always.
func TestMeasuresAreShown(t *testing.T) {
	inFolder(t, map[string]string{"rare.yaml": rareConfiguration})
	rareRows(t, "train.csv", 1, 2000)
	rareRows(t, "test.csv", 2, 60) // too few to tell
	code, stdout, stderr := stagewise("train", "-c", "rare.yaml")
	auc := regexp.MustCompile(`\ntest: AUC (0\.9\d{3})\n`).FindStringSubmatch(stdout)
	if code != exitDone || auc == nil || !strings.Contains(stdout, `better than that of always predicting "common"`) {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = stagewise("runs", "show", "-c", "rare.yaml", "1", "--html", "run.html")
	if code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = stagewise("runs", "show", "-c", "rare.yaml", "1"); code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	page := readFile(t, "run.html")
	for _, row := range []string{`test AUC +(0\.\d+)`, `test average precision +(0\.\d+)`, `test balanced error +(\d+\.\d\d %)`,
		`test error of the commonest class +(\d+\.\d\d %)`, `common +(0\.\d{4}) +1\.\d{4} +0\.\d{4}`,
		`rare +(\d\.\d{4}) +0\.\d{4} +0\.\d{4}`} {
		found := regexp.MustCompile(`\n` + row + `\n`).FindStringSubmatch(stdout)
		if found == nil {
			t.Errorf("no row %s in\n%s", row, stdout)
		} else if strings.HasPrefix(row, "test") && !strings.Contains(page, found[1]) {
			t.Errorf("the page lacks the %s", fmt.Sprint(found))
		}
	}
	if !strings.Contains(page, `<th scope="col">recall</th>`) {
		t.Error("the page lacks the recall of the classes")
	}
}
