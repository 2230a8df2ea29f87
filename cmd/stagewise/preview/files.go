package preview

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/solve/survey"
)

// checkFiles returns a line for each file of a split, and an error for each file that can't be read.
func checkFiles(split string, names []string) (lines []string, missing []error) {
	for _, name := range names {
		files, err := ingest.Files([]string{name})
		if err != nil {
			missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
			lines = append(lines, fmt.Sprintf("%s: %s (no file matches)", split, name))
		}
		for _, file := range files {
			line, err := checkFile(file)
			if err != nil {
				missing = append(missing, fmt.Errorf("examples.%s: %w", split, err))
			}
			lines = append(lines, split+": "+line)
		}
	}
	return lines, missing
}

// checkFile returns a line for a file, and an error if it can't be read.
func checkFile(file string) (string, error) {
	if file == ingest.StandardInput {
		return "standard input", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return file + " (missing)", err
	}
	if info.IsDir() {
		return file + " (a folder of images)", nil
	}
	return fmt.Sprintf("%s (%s)", file, humanize.Bytes(uint64(info.Size()))), nil
}

// checkRows reads the files as train would, of large ones the first rows. It returns how many features they have, and
// an error for each column that train would refuse; 0 if that can't be known. It leaves out the standard input, which
// it would use up.
func checkRows(ctx context.Context, c *config.Config) (width int, whole bool, err error) {
	o := c.Job().Examples
	if o.FindsWords() && slices.Contains(o.Train, ingest.StandardInput) {
		return 0, true, nil // the words of the files to train on are features
	}
	isInput := func(name string) bool { return name == ingest.StandardInput }
	o.Train, o.Test = slices.DeleteFunc(slices.Clone(o.Train), isInput), slices.DeleteFunc(slices.Clone(o.Test), isInput)
	sources, whole, troubles := ingest.Troubles(ctx, o)
	if len(troubles) > 0 || len(sources) == 0 {
		return 0, true, errors.Join(troubles...)
	}
	width = sources[0].Width // that of all
	return width, whole, survey.CheckWidth(c.Prepare.PCA, width)
}
