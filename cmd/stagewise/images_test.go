package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const imagesConfig = `
name: images
examples: {train: [train-idx3-ubyte, train-idx1-ubyte], test: [test-idx3-ubyte, test-idx1-ubyte], batch_rows: 32}
stages: [{features: {kind: patches, patch: 3, filters: 12, grid: 2}, passes: 8, ridge: 1e-3, repeat: 2}]
`

func imageFiles() map[string]string {
	files := map[string]string{"images.yaml": imagesConfig}
	files["train-idx3-ubyte"], files["train-idx1-ubyte"] = strokes(180, 0)
	files["test-idx3-ubyte"], files["test-idx1-ubyte"] = strokes(60, 7)
	return files
}

// reportOfImages trains and returns its report.
func reportOfImages(t *testing.T, args ...string) (report struct {
	TestError     float64 `json:"test_error"`
	WeightsDigest string  `json:"weights_digest"`
}) {
	t.Helper()
	typed(t, exitDone, append([]string{"train", "--report", "report.json"}, args...)...)
	text := valueOf(os.ReadFile("report.json"))(t)
	noError(t, json.Unmarshal(text, &report))
	return report
}

// writeFolders writes the images of idx files as PNG files, each into the folder of its label.
func writeFolders(t *testing.T, folder, images, labels string) {
	t.Helper()
	for i := range len(labels) - 8 {
		var file bytes.Buffer
		pixels := &image.Gray{Pix: []byte(images[16+72*i : 16+72*(i+1)]), Stride: 8, Rect: image.Rect(0, 0, 8, 9)}
		noError(t, png.Encode(&file, pixels))
		class := filepath.Join(folder, []string{"level", "upright", "slanting"}[labels[8+i]])
		noError(t, os.MkdirAll(class, 0o700))
		noError(t, os.WriteFile(filepath.Join(class, fmt.Sprintf("%03d.png", i)), file.Bytes(), 0o600))
	}
}

// A folder of images for each class is learnt as idx files are. The model predicts folders, whose images need no class, and single images.
func TestFoldersOfImages(t *testing.T) {
	long(t)
	files := imageFiles()
	files["folders.yaml"] = strings.NewReplacer("[train-idx3-ubyte, train-idx1-ubyte]", "[train]",
		"[test-idx3-ubyte, test-idx1-ubyte]", "[test]").Replace(imagesConfig)
	inFolder(t, files)
	writeFolders(t, "train", files["train-idx3-ubyte"], files["train-idx1-ubyte"])
	writeFolders(t, "test", files["test-idx3-ubyte"], files["test-idx1-ubyte"])
	if code, stdout, stderr := stagewise("check", "-c", "folders.yaml"); code != exitDone || !strings.Contains(stdout, "features    72\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if report := reportOfImages(t, "-c", "folders.yaml", "--model", "model"); report.TestError > 4 {
		t.Errorf("the test error is %v %%", report.TestError)
	}
	labels, wrong := predicted(t, "-i", "test"), 0
	for i, label := range labels {
		if want := []string{"level", "slanting", "upright"}[i/20]; label != want { // in the order of their names
			wrong++
		}
	}
	if len(labels) != 60 || wrong > 2 {
		t.Errorf("%d of %d predictions of the folder are wrong", wrong, len(labels))
	}
	if label := predicted(t, "-i", "test/upright/001.png"); len(label) != 1 || label[0] != labels[40] {
		t.Errorf("the image alone is predicted to be %v, in its folder %s", label, labels[40])
	}
}
