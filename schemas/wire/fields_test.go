package wire

import (
	"errors"
	"reflect"
	"testing"
)

// tagsOfAllKinds has a field of each kind that a tag may describe.
type tagsOfAllKinds struct {
	Identity
	Text   string           `header:"text"`
	Count  int              `header:"count,count"`
	Weight *float64         `header:"weight,omitzero"`
	Rest   Tensors[float64] `tensor:"*"`
	Group  *struct {
		First int `header:"first"`
	} `header:"first,group"`
	Object map[string]int `header:"object,omitempty"`
	Words  []string       `tensor:"words"`
	Whole  []int64        `tensor:"whole,omitzero"`
	Single []float32      `tensor:"single"`
	Rows   []struct {
		Column int32
		Sum    struct{ Value float64 }
	} `tensor:"rows,omitempty"`
	Texts   []map[string]int `tensor:"texts,texts,omitempty"`
	Objects map[string]int   `tensor:"objects,text,omitzero"`
}

// A struct with tags is what its record is read as, and a record of other content is damaged.
func TestTaggedStructs(t *testing.T) {
	weight := 0.5
	full := tagsOfAllKinds{Identity: Identity{Kind: "visit", Run: "run"}, Text: "a", Count: 3, Weight: &weight,
		Rest: Tensors[float64]{Vector("other", []float64{1})}, Object: map[string]int{"x": 1}, Words: []string{"a", "b"}, Whole: []int64{1 << 40},
		Single: []float32{0.25}, Texts: []map[string]int{{"y": 2}}, Objects: map[string]int{"z": 3}}
	full.Group = &struct {
		First int `header:"first"`
	}{4}
	full.Rows = append(full.Rows, struct {
		Column int32
		Sum    struct{ Value float64 }
	}{7, struct{ Value float64 }{0.5}})
	for _, want := range []tagsOfAllKinds{full, {Words: []string{}, Rest: Tensors[float64]{}}} {
		var got tagsOfAllKinds
		if err := RecordOf[float64](&want).Into(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
	for name, damage := range map[string]func(*Record[float64]){
		"no count":            func(r *Record[float64]) { r.Notes = r.Notes[:1] },
		"negative count":      func(r *Record[float64]) { r.Notes[1].Value = "-1" },
		"text as weight":      func(r *Record[float64]) { r.Notes[2].Value = "x" },
		"no JSON":             func(r *Record[float64]) { r.Notes[4].Value = "{" },
		"no words":            func(r *Record[float64]) { r.Tensors[1].Name = "others" },
		"numbers as words":    func(r *Record[float64]) { r.Tensors[1] = Vector("words", []float64{1}) },
		"words as numbers":    func(r *Record[float64]) { r.Tensors[2] = Words[float64]("whole", []string{"1"}) },
		"a fraction":          func(r *Record[float64]) { r.Tensors[2].Data[0] = 0.5 },
		"beyond int32":        func(r *Record[float64]) { r.Tensors[4].Data[0] = 1 << 31 },
		"a matrix of another": func(r *Record[float64]) { r.Tensors[4].Shape = []int{2, 1} },
		"a vector":            func(r *Record[float64]) { r.Tensors[4].Shape = []int{2} },
		"a matrix":            func(r *Record[float64]) { r.Tensors[3].Shape = []int{1, 1} },
		"no JSON in a text":   func(r *Record[float64]) { r.Tensors[5].Text[0] = "{" },
		"two texts":           func(r *Record[float64]) { r.Tensors[6] = Words[float64]("objects", []string{"{}", "{}"}) },
	} {
		r := RecordOf[float64](&full)
		r.Notes, r.Tensors = append([]Header{}, r.Notes...), append(Tensors[float64]{}, r.Tensors...)
		for i := range r.Tensors {
			r.Tensors[i].Data, r.Tensors[i].Text = append([]float64(nil), r.Tensors[i].Data...), append([]string(nil), r.Tensors[i].Text...)
		}
		damage(r)
		if err := r.Into(&tagsOfAllKinds{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, expected ErrDamaged", name, err)
		}
	}
}
