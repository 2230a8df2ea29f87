package model_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

// digit is a handwritten seven: 8 × 8 pixels, from 0 for white to 16 for black.
var digit = []float32{
	0, 0, 7, 8, 13, 16, 15, 1,
	0, 0, 7, 7, 4, 11, 12, 0,
	0, 0, 0, 0, 8, 13, 1, 0,
	0, 4, 8, 8, 15, 15, 6, 0,
	0, 2, 11, 15, 15, 4, 0, 0,
	0, 0, 0, 16, 5, 0, 0, 0,
	0, 0, 9, 15, 1, 0, 0, 0,
	0, 0, 13, 5, 0, 0, 0, 0,
}

// load reads a model of digits from a file that `stagewise train --model` wrote.
func load() *model.Model {
	f, err := os.Open("testdata/digits.arrow")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	m, err := model.Read(f)
	if err != nil {
		panic(err)
	}
	return m
}

// Read a model from a file, and predict one row.
func Example() {
	m := load()
	label, probabilities := m.Predictor(nil).Predict(digit)
	fmt.Printf("label %s, probability %.2f\n", label, probabilities[7])
	// Output: label 7, probability 0.98
}

// Any number of goroutines may predict with one model. What they need is used again.
func ExampleModel_Predict() {
	m := load()
	probabilities := make([]float32, len(m.Labels()))
	label := m.Predict(digit, probabilities)
	fmt.Printf("label %s, probability %.2f\n", label, probabilities[7])
	// Output: label 7, probability 0.98
}

// A model says what it was trained on and how well it predicts.
func ExampleRead() {
	m := load()
	fmt.Println("version", m.Manifest.Version, "of", m.Manifest.Name)
	fmt.Println("training rows", m.Manifest.Rows["train"])
	fmt.Printf("test error %.1f %%\n", m.Manifest.Metrics["test_error"])
	// Output:
	// version 1 of digits
	// training rows 1297
	// test error 10.4 %
}

// Labels stand in the order of the probabilities.
func ExampleModel_Labels() {
	m := load()
	fmt.Println(m.Width(), "features")
	fmt.Println(len(m.Labels()), "labels:", m.Labels())
	// Output:
	// 64 features
	// 10 labels: [0 1 2 3 4 5 6 7 8 9]
}

// What WriteTo writes, Read reads: the digest shows that it is the same model.
func ExampleModel_WriteTo() {
	m := load()
	var file bytes.Buffer
	if _, err := m.WriteTo(&file); err != nil {
		fmt.Println(err)
		return
	}
	again, err := model.Read(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Digest() == m.Digest())
	// Output: true
}

// Predict many rows at once.
func ExamplePredictor_Probabilities() {
	m := load()
	rows := &examples.Rows{Rows: 100, Cols: m.Width(), Floats: slices.Repeat(digit, 100)}
	probabilities := m.Predictor(nil).Probabilities(rows)
	fmt.Println(len(probabilities))
	fmt.Printf("%.2f\n", probabilities[99*10+7])
	// Output:
	// 1000
	// 0.98
}
