package pipeline

import (
	"math"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Examples of the kinds that the others are not: sparse rows, rows with several labels or with numbers, rows with a
// missing feature, test rows and images.

// kindRows is how many rows a message of them has.
const kindRows = 12

// kindExamples returns two messages in each partition, whose rows change what rings returns.
func kindExamples(columns int, change func(rows *examples.Rows, seed int)) *simExamples {
	e := &simExamples{rows: 4 * kindRows}
	for p := range simPartitions {
		var messages []wire.Message
		for n := range 2 {
			seed := 500 + 10*p + n
			rows := rings(kindRows, columns, 2, uint64(seed)).exampleRows()
			change(&rows, seed)
			m, err := (schemas.Origin{}).Message(&rows, memory.DefaultAllocator)
			if err != nil {
				panic(err) // the rows fit into a message
			}
			messages = append(messages, wire.Message{Value: m.Value})
		}
		e.messages = append(e.messages, messages)
	}
	return e
}

// sparseExamples have two of eight columns in each row, and holdout rows.
func sparseExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, seed int) {
		sparse := &examples.SparseRows{}
		for i := range rows.Rows {
			first := int32((seed + i) % 4)
			sparse.Indices = append(sparse.Indices, first, first+4)
			sparse.Values = append(sparse.Values, rows.Floats[2*i]*rows.Floats[2*i], 1+float32(i%3))
			sparse.Ends = append(sparse.Ends, len(sparse.Indices))
		}
		rows.Floats, rows.Cols, rows.Sparse = nil, 0, sparse
	})
	e.holdout = 0.3
	return e
}

// sparseChainExamples have rows like sparseExamples, in ten messages of each partition. Later ones have columns that earlier ones lack.
func sparseChainExamples() *simExamples {
	const messages, rowsOfMessage = 10, 8
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage, sparse: true}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			list = append(list, sparseMessage(p, n, rowsOfMessage))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

func sparseMessage(partition, number, rowsOfMessage int) wire.Message {
	rows := rings(rowsOfMessage, 2, 2, uint64(700+100*partition+number)).exampleRows()
	sparse := &examples.SparseRows{}
	for i := range rows.Rows {
		first := int32((number + i) % 4)
		sparse.Indices = append(sparse.Indices, first, first+4+int32(number/2))
		sparse.Values = append(sparse.Values, rows.Floats[2*i]*rows.Floats[2*i], 1+float32(i%3))
		sparse.Ends = append(sparse.Ends, len(sparse.Indices))
	}
	rows.Floats, rows.Cols, rows.Sparse = nil, 0, sparse
	m, err := (schemas.Origin{}).Message(&rows, memory.DefaultAllocator)
	if err != nil {
		panic(err) // the rows fit into a message
	}
	return wire.Message{Value: m.Value}
}

// severalExamples have one label or two.
func severalExamples() *simExamples {
	return kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			rows.LabelLists = append(rows.LabelLists, [][]string{{"right"}, {"up"}, {"right", "up"}}[(seed+i)%3])
		}
		rows.Words = nil
	})
}

// numberExamples have two numbers to predict, and test rows.
func numberExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, _ int) {
		for i := range rows.Rows {
			rows.Targets = append(rows.Targets, float64(rows.Floats[2*i]), float64(rows.Floats[2*i+1]))
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
		}
		rows.Words = nil
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// missingExamples lack some features, and have test rows and weights. A label of test rows is a class of its own.
func missingExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			if (seed+i)%5 == 0 {
				rows.Floats[2*i] = float32(math.NaN())
			}
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
			rows.Weights = append(rows.Weights, float32(1+i%2))
		}
		rows.Words[5] = "Ring-1" // which no training row has
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// imageExamples have 2 × 2 pixels.
func imageExamples() *simExamples { return kindExamples(4, func(*examples.Rows, int) {}) }

// withJob returns the scenario of a job that is changed.
func (sc *scenario) withJob(change func(*topics.Job)) *scenario {
	change(&sc.job)
	return sc
}
