package export

import (
	"io"

	"github.com/stagewise/stagewise/model"
)

// Arrow is the format of model files, an Arrow stream. [model.Read] reads it.
const Arrow = "arrow"

func arrow() Format {
	return Format{
		Name: Arrow,
		Doc:  "a model file for predict, serve and the Python package",
		Write: func(w io.Writer, m *model.Model) error {
			_, err := m.WriteTo(w)
			return err
		},
	}
}
