package config_test

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/config"
)

// What a file leaves out has its default. A path in it is relative to its own folder.
func ExampleLoad() {
	c, err := config.Load("testdata/example/digits.yaml", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Name, c.Examples.Train)
	fmt.Println("seed", c.Seed)
	fmt.Println("link", c.Stages[0].Link)
	// Output:
	// digits [testdata/example/digits-train.csv.gz]
	// seed 1
	// link softmax
}

// An Error lists everything that is wrong at once.
func ExampleError() {
	_, err := config.Load("testdata/example/wrong.yaml", []string{"memory=plenty"})
	if wrong := (*config.Error)(nil); errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			fmt.Println(p.Key, "on line", p.Line, "of", p.Source)
		}
	}
	fmt.Println(err)
	// Output:
	// examples.holdout on line 4 of testdata/example/wrong.yaml
	// stages.0.features.sise on line 6 of testdata/example/wrong.yaml
	// stages.0.passes on line 7 of testdata/example/wrong.yaml
	// memory on line 0 of --set
	// testdata/example/wrong.yaml:4: examples.holdout: 10%: expected a number
	// testdata/example/wrong.yaml:6: stages.0.features.sise: 256: expected a known key; did you mean size?
	// testdata/example/wrong.yaml:7: stages.0.passes: 0: expected a whole number from 1 to 10000
	// --set: memory: plenty: expected a size such as 512MB or 1GiB, or a number of bytes, below 8 EiB
}

// Settings replace what the file says, in their order. The job lists each repeated stage.
func ExampleConfig_Job() {
	c, err := config.Load("testdata/example/digits.yaml", []string{"seed=7", "stages.0.repeat=2", "stages.0.passes=20", "memory=1GiB"})
	if err != nil {
		fmt.Println(err)
		return
	}
	job := c.Job()
	fmt.Println("seed", job.Seed, "memory", job.Memory)
	for i, stage := range job.Stages {
		fmt.Println("stage", i, stage.Features.Kind, stage.Features.Size, "passes", stage.Passes)
	}
	// Output:
	// seed 7 memory 1073741824
	// stage 0 rff 256 passes 20
	// stage 1 rff 256 passes 20
}
