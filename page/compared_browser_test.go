//go:build page

package page

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stagewise/stagewise/schemas"
)

// A page of one run, of two and of many fits its window, wide or narrow, in light and dark. A person looks at what this writes with -shots.
func TestPageOfRunsFits(t *testing.T) {
	folder := t.TempDir()
	runsOf := map[string]int{"one": 1, "two": 2, "many": 14, "keys": 5, "twenty": 5}
	for name, n := range runsOf {
		var runs []Compared
		for i := range n {
			r := made(fmt.Sprintf("run %d", i+1), schemas.Ridge(0.1*float64(i+1)), 2)
			r.Settings = []Setting{{"stages.0.ridge", fmt.Sprint(0.1 * float64(i+1))}, {"stages.0.features.bandwidth_scale", fmt.Sprint(i % 3)}}
			if name == "keys" {
				for _, key := range []string{"prepare.pca", "seed", "stages.0.features.kind", "stages.0.features.size", "stages.0.link", "stages.0.passes"} {
					r.Settings = append(r.Settings, Setting{key, []string{"identity", "calibrated", "sorf"}[i%3]})
				}
			}
			for key := range map[bool]int{true: 20}[name == "twenty"] {
				r.Settings = append(r.Settings, Setting{fmt.Sprintf("stages.%d.%s", 1+key/6, []string{"features.kind", "features.size", "link", "passes",
					"features.bandwidth_scale", "ridge"}[key%6]), []string{"identity", "1024", "0.001"}[(i+key)%3]})
			}
			test := r.Report.Splits["test"]
			test.Error, test.Loss = 50-float64(i), 0.3+0.01*float64(i)
			r.Report.Splits["test"] = test
			runs = append(runs, r)
		}
		page, err := os.Create(filepath.Join(folder, name+".html"))
		if err != nil {
			t.Fatal(err)
		}
		if err := WritePage(page, About{Title: "Search over stages.0.ridge and stages.0.features.bandwidth_scale", Pipeline: "digits",
			Date: "2026-01-02T03:04:05Z"}, runs); err != nil {
			t.Fatal(err)
		}
		if err := page.Close(); err != nil {
			t.Fatal(err)
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox) // the pages are ours, and the tests may run as root
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil { // starts the browser
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, name := range []string{"one", "two", "many", "keys", "twenty"} {
		for _, width := range []int64{420, 768, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
				if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
					t.Fatal(err)
				}
				if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("file://"+filepath.Join(folder, name+
					".html"))); err != nil {
					t.Fatal(err)
				}
				seen, err := chromedp.Run(ctx, chromedp.Evaluate[[]int64](`[document.documentElement.scrollWidth,
					document.querySelectorAll("#charts > figure").length, document.querySelectorAll("#charts .series").length,
					document.querySelectorAll("#matrices table").length, document.querySelectorAll("#others table").length,
					[...document.querySelectorAll("#matrices .right")].filter((e) => e.textContent === "7" || e.textContent === "3").length,
					document.querySelectorAll("#charts figure:first-child .series.run8").length]`))
				if err != nil {
					t.Fatal(err)
				}
				if seen[0] > width {
					t.Errorf("%s: the page is %d pixels wide, in a window of %d", name, seen[0], width)
				}
				if seen[1] != 9 || seen[2] < seen[1] { // error and loss of train and test rows by stage and pass, and reliability
					t.Errorf("%s: %d diagrams with %d lines", name, seen[1], seen[2])
				}
				few, others := int64(min(runsOf[name], 2)), int64(min(runsOf[name], 8)-min(runsOf[name], 2))
				if seen[3] != few || seen[4] != others || seen[5] != 2*few { // 7 of 10 and 3 of 10 test rows are right
					t.Errorf("%s: %d matrices and %d of other runs, with %d cells of right predictions", name, seen[3], seen[4], seen[5])
				}
				if want := int64(max(runsOf[name]-8, 0)); seen[6] != want {
					t.Errorf("%s: %d lines without a colour of their own, expected %d", name, seen[6], want)
				}
				if *shots == "" {
					continue
				}
				png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("runs-%s-%s-%d.png", name, scheme, width)), png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
