package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

const imagesConfig = `
name: images
examples: {train: [train-idx3-ubyte, train-idx1-ubyte], test: [test-idx3-ubyte, test-idx1-ubyte], batch_rows: 32}
stages: [{features: {kind: patches, patch: 3, filters: 12, grid: 2}, passes: 8, ridge: 1e-3, repeat: 2}]
`

// strokes are idx files of images of 9 × 8 pixels, each with a stroke somewhere: level, upright or slanting.
func strokes(n, from int) (images, labels string) {
	pixels, classes := []byte{0, 0, 8, 3, 0, 0, 0, byte(n), 0, 0, 0, 9, 0, 0, 0, 8}, []byte{0, 0, 8, 1, 0, 0, 0, byte(n)}
	for i := range n {
		image, class := make([]byte, 72), i%3
		for k := range 4 {
			y, x := i/3%6, (from+i/18)%5
			switch class {
			case 0:
				x += k
			case 1:
				y += k
			default:
				x, y = x+k, y+k
			}
			image[8*y+x] = byte(150 + (i+from)%100)
		}
		for j := range image {
			image[j] += byte((j*j + i*j + from) % 7)
		}
		pixels, classes = append(pixels, image...), append(classes, byte(class))
	}
	return string(pixels), string(classes)
}

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
	if code, _, stderr := stagewise(append([]string{"train", "--report", "report.json"}, args...)...); code != exitDone {
		t.Fatalf("%q: exit code %d: %s", args, code, stderr)
	}
	text, err := os.ReadFile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// Files of idx say that they are images, so patches need no other key. The weights do not depend on how much memory there is, and a model
// file predicts as the run did.
func TestTrainPatches(t *testing.T) {
	inFolder(t, imageFiles())
	first := reportOfImages(t, "-c", "images.yaml", "--model", "model")
	if first.TestError > 2 {
		t.Errorf("the test error is %v %%", first.TestError)
	}
	if again := reportOfImages(t, "-c", "images.yaml", "--set", "memory=64MB", "--set",
		"data_dir=again"); again.WeightsDigest != first.WeightsDigest {
		t.Error("a run with little memory has other weights")
	}
	labels, wrong := predicted(t, "-i", "test-idx3-ubyte"), 0
	for i, label := range labels {
		if label != []string{"0", "1", "2"}[i%3] {
			wrong++
		}
	}
	if got := 100 * float64(wrong) / 60; len(labels) != 60 || math.Abs(got-first.TestError) > 1e-9 {
		t.Errorf("the model file predicts %d rows with an error of %v %%, the run %v %%", len(labels), got, first.TestError)
	}
	if code, _, stderr := stagewise("weights", "export", "-c", "images.yaml", "-o", "model.onnx"); code != exitDone {
		t.Errorf("export: exit code %d: %s", code, stderr)
	}
}

// writeFolders writes the images of idx files as PNG files, each into the folder of its label.
func writeFolders(t *testing.T, folder, images, labels string) {
	t.Helper()
	for i := range len(labels) - 8 {
		var file bytes.Buffer
		pixels := &image.Gray{Pix: []byte(images[16+72*i : 16+72*(i+1)]), Stride: 8, Rect: image.Rect(0, 0, 8, 9)}
		if err := png.Encode(&file, pixels); err != nil {
			t.Fatal(err)
		}
		class := filepath.Join(folder, []string{"level", "upright", "slanting"}[labels[8+i]])
		if err := os.MkdirAll(class, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, fmt.Sprintf("%03d.png", i)), file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder of images for each class is learnt as idx files are. The model predicts folders, whose images need no class, and single images.
func TestFoldersOfImages(t *testing.T) {
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

// The page of a run has a picture of each filter, and of each test image that the version gets wrong.
func TestShowImages(t *testing.T) {
	inFolder(t, imageFiles())
	report := reportOfImages(t, "-c", "images.yaml", "--set", "stages.0.passes=1", "--set", "stages.0.repeat=1", "--set", "stages.0.ridge=100")
	if code, _, stderr := stagewise("runs", "show", "-c", "images.yaml", "1", "--html", "run.html"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	page, err := os.ReadFile("run.html")
	if err != nil {
		t.Fatal(err)
	}
	pictures, wrong := strings.Count(string(page), `"Levels":"`), int(math.Round(report.TestError*60/100))
	if wrong == 0 || pictures != 12+wrong {
		t.Errorf("%d pictures, expected 12 filters and %d mistakes", pictures, wrong)
	}
	if captions := regexp.MustCompile(`"Caption":"[012] as [012]"`).FindAll(page, -1); len(captions) != wrong {
		t.Errorf("%d mistakes say what they are and what they are taken for, expected %d", len(captions), wrong)
	}
}

// A table has no shape of its own: examples.image says it.
func TestPatchesOfTables(t *testing.T) {
	digits, err := filepath.Abs("../../examples/digits/digits-train.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"digits.yaml": `
name: digits
examples: {train: ["` + digits + `"], holdout: 0.3}
stages: [{features: {kind: patches, patch: 3, filters: 16, grid: 2, source: kmeans}, passes: 10, ridge: 1e-3}]
`})
	code, _, stderr := stagewise("train", "-c", "digits.yaml")
	if code != exitFailed || !strings.Contains(stderr, "set examples.image") {
		t.Errorf("without examples.image: exit code %d: %s", code, stderr)
	}
	code, _, stderr = stagewise("train", "-c", "digits.yaml", "--set", "examples.image=[8, 9]", "--set", "data_dir=other")
	if code == exitDone || !strings.Contains(stderr, "64 features, but examples.image") {
		t.Errorf("another shape: exit code %d: %s", code, stderr)
	}
	reportOfImages(t, "-c", "digits.yaml", "--set", "examples.image=[8, 8, 1]", "--set", "data_dir=third")
}

// Rows that are made of images are rows of the run alone. Weights do not depend on how much memory there is for them,
// nor on partitions being computed again, and a mirrored training set is learnt as well as it would be from files.
func TestAugment(t *testing.T) {
	files := imageFiles()
	files["table.csv"] = "a,1,2\nb,2,1\na,1,3\nb,3,1\n"
	files["table.yaml"] = "name: table\ndata_dir: table\nexamples: {train: [table.csv], augment: {shift: 1}}\nstages: " +
		"[{features: {size: 4}}]\n"
	inFolder(t, files)
	augment := []string{"-c", "images.yaml", "--set", "examples.augment={mirror: true, shift: 1}"}
	first := reportOfImages(t, augment...)
	if again := reportOfImages(t, append(augment, "--set", "memory=1MB", "--set",
		"data_dir=again")...); again.WeightsDigest != first.WeightsDigest {
		t.Error("a run with little memory has other weights")
	}
	if plain := reportOfImages(t, "-c", "images.yaml", "--set", "data_dir=plain"); plain.WeightsDigest == first.WeightsDigest {
		t.Error("the rows that are made of images do not change the weights")
	}
	text, err := os.ReadFile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	if reportOfImages(t, augment...); !sameRows(t, text) {
		t.Error("rows that are made of images are counted as rows")
	}
	code, _, stderr := stagewise("run", "-c", "images.yaml", "--until", "end", "--set", "examples.augment.mirror=true", "--set",
		"data_dir=chain")
	if code != exitWrong || !strings.Contains(stderr, "examples.augment: 2 rows for each image: expected no value for run") {
		t.Errorf("a chain: exit code %d: %s", code, stderr)
	}
	code, _, stderr = stagewise("train", "-c", "table.yaml")
	if code != exitFailed || !strings.Contains(stderr, "set examples.image to height, width and channels") {
		t.Errorf("no images: exit code %d: %s", code, stderr)
	}
}

// sameRows reports whether report.json counts as many rows of each split as another report.
func sameRows(t *testing.T, other []byte) bool {
	t.Helper()
	var reports [2]schemas.Report
	text, err := os.ReadFile("report.json")
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range [][]byte{text, other} {
		if err := json.Unmarshal(text, &reports[i]); err != nil {
			t.Fatal(err)
		}
	}
	for split, report := range reports[1].Splits {
		if reports[0].Splits[split].Rows != report.Rows {
			return false
		}
	}
	return reports[0].Rows == reports[1].Rows && len(reports[1].Splits) > 0
}

func TestPatchesInConfigurations(t *testing.T) {
	inFolder(t, imageFiles())
	for set, want := range map[string]string{
		"prepare.pca=5":                   "stages.0.features.kind: patches: expected another kind, or prepare.pca 0",
		"examples.image=[28]":             "examples.image: [28]: expected height, width and channels",
		"stages.0.features.source=noise":  "stages.0.features.source: noise: expected data, gaussian or kmeans",
		"stages.0.features.patch=40":      "stages.0.features.patch: 40: expected a whole number from 1 to 32",
		"stages.0.features.filters=10000": "stages.0.features.filters: 10000: expected a whole number",
		"stages.0.features.whiten=0":      "stages.0.features.whiten: 0: expected a number > 0",
		"stages.0.features.grid=[1]":      "stages.0.features.grid",
		"stages.0.features.rectify=.inf":  "stages.0.features.rectify",
		"examples.augment.shift=9":        "examples.augment.shift: 9: expected a whole number from 0 to 8",
	} {
		code, _, stderr := stagewise("check", "-c", "images.yaml", "--set", set)
		if lines := strings.Split(stderr, "\n"); code != exitWrong || !slices.ContainsFunc(lines,
			func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("%s: exit code %d, expected %q: %s", set, code, want, stderr)
		}
	}
}
