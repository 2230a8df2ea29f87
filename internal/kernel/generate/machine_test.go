package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A routine is a generated function, ready to run on a machine.
type routine struct {
	code   [][]string // instructions: the name, and the operands
	labels map[string]int
}

// routineOf returns a function of the assembly.
func routineOf(t *testing.T, assembly, name string) routine {
	t.Helper()
	_, text, found := strings.Cut(assembly, "TEXT ·"+name+"(SB)")
	if !found {
		t.Fatalf("there is no function %s", name)
	}
	text, _, _ = strings.Cut(text, "\nTEXT ")
	r := routine{labels: map[string]int{}}
	for _, line := range strings.Split(text, "\n")[1:] {
		line, _, _ = strings.Cut(line, "//")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.HasSuffix(line, ":"):
			r.labels[strings.TrimSuffix(line, ":")] = len(r.code)
		default:
			name, operands, _ := strings.Cut(line, " ")
			instruction := []string{name}
			for _, o := range strings.Split(operands, ",") {
				instruction = append(instruction, strings.TrimSpace(o))
			}
			r.code = append(r.code, instruction)
		}
	}
	return r
}

// machine interprets the instructions of the products, so that the AVX-512 version is tested on processors without it.
// An access outside its memory panics. A fused multiply-add is rounded to float64 first, so its bits may differ from
// the processor's, but not between two versions.
type machine struct {
	memory    []uint32 // from address 0
	arguments map[string]int
	numbers   map[string]float32 // arguments that are float32
	integers  map[string]int
	vectors   map[string][]uint32
	masks     map[string]int
	compared  int // operand that the last flag-setting instruction compared with 0
}

// selectionAddress is the address of the data of selection.
const selectionAddress = 1 << 40

var (
	memoryOperand   = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
	argumentOperand = regexp.MustCompile(`^(\w+)\+\d+\(FP\)$`)
)

// run runs a routine to its end.
func (m *machine) run(r routine) {
	m.integers, m.vectors, m.masks = map[string]int{}, map[string][]uint32{}, map[string]int{}
	for at := 0; r.code[at][0] != "RET"; {
		name, operands := r.code[at][0], r.code[at][1:]
		at++
		switch now, jumps := m.jump(name); {
		case now:
			at = r.labels[operands[0]]
		case !jumps:
			m.step(name, operands)
		}
	}
}

// jump reports whether an instruction jumps now, and whether it is a jump.
func (m *machine) jump(name string) (now, jumps bool) {
	switch c := m.compared; name {
	case "JMP":
		return true, true
	case "JLT":
		return c < 0, true
	case "JLE":
		return c <= 0, true
	case "JGE":
		return c >= 0, true
	case "JZ":
		return c == 0, true
	case "JNZ", "JNE":
		return c != 0, true
	}
	return false, false
}

func (m *machine) step(name string, o []string) {
	last := o[len(o)-1]
	switch name {
	case "MOVQ":
		m.integers[last] = m.value(o[0])
	case "LEAQ":
		m.integers[last] = m.address(o[0])
	case "ADDQ", "SUBQ", "SHLQ", "DECQ":
		v := m.integers[last]
		switch name {
		case "ADDQ":
			v += m.value(o[0])
		case "SUBQ":
			v -= m.value(o[0])
		case "SHLQ":
			v <<= m.value(o[0])
		case "DECQ":
			v--
		}
		m.integers[last], m.compared = v, v
	case "TESTQ":
		m.compared = m.value(o[0]) & m.value(o[1])
	case "CMPQ":
		m.compared = m.value(o[0]) - m.value(o[1])
	case "KMOVW":
		m.masks[last] = m.value(o[0]) & 0xFFFF
	case "PREFETCHT0":
		m.address(o[0])
	case "VXORPS", "VPXORD":
		if o[0] != o[1] {
			panic(fmt.Sprintf("%s of %v", name, o))
		}
		m.vectors[last] = make([]uint32, lanesOf(last))
	case "VMOVUPS":
		m.move(o[0], last, func(lane int) bool { return len(o) == 2 || m.masks[o[1]]>>lane&1 == 1 })
	case "VMOVUPS.Z":
		m.move(o[0], last, func(lane int) bool { return m.masks[o[1]]>>lane&1 == 1 })
	case "VMASKMOVPS":
		m.move(o[0], last, func(lane int) bool { return m.vectors[o[1]][lane]>>31 == 1 })
	case "VBROADCASTSS":
		m.vectors[last] = m.broadcast(o[0], lanesOf(last))
	case "VFMADD231PS":
		m.combine(m.vectors[o[0]], m.vectors[o[1]], last, func(x, y, sum float64) float64 { return math.FMA(x, y, sum) })
	case "VFMADD231PS.BCST":
		m.combine(m.broadcast(o[0], lanesOf(last)), m.vectors[o[1]], last, func(x, y, sum float64) float64 { return math.FMA(x, y, sum) })
	case "VADDPS":
		m.combine(m.vectors[o[0]], m.vectors[o[1]], last, func(x, y, _ float64) float64 { return x + y })
	case "VSUBPS":
		m.combine(m.vectors[o[0]], m.vectors[o[1]], last, func(x, y, _ float64) float64 { return y - x })
	case "VMAXPS":
		m.combine(m.vectors[o[0]], m.vectors[o[1]], last, func(x, y, _ float64) float64 { return max(x, y) })
	case "VMINPS":
		m.combine(m.vectors[o[0]], m.vectors[o[1]], last, func(x, y, _ float64) float64 { return min(x, y) })
	case "VZEROUPPER":
	default:
		panic(fmt.Sprintf("the machine has no %s", name))
	}
}

func lanesOf(register string) int { return map[byte]int{'Y': 8, 'Z': 16}[register[0]] }

// value returns an integer: a constant, an argument, or a register.
func (m *machine) value(operand string) int {
	if text, constant := strings.CutPrefix(operand, "$"); constant {
		return number(text)
	}
	if a := argumentOperand.FindStringSubmatch(operand); a != nil {
		return m.arguments[a[1]]
	}
	if operand == "CL" {
		operand = "CX"
	}
	return m.integers[operand]
}

// address returns the address of a memory operand.
func (m *machine) address(operand string) int {
	if strings.HasPrefix(operand, "selection<>+") {
		return selectionAddress + number(strings.TrimSuffix(strings.TrimPrefix(operand, "selection<>+"), "(SB)"))
	}
	a := memoryOperand.FindStringSubmatch(operand)
	if a == nil {
		panic(fmt.Sprintf("%s is not in memory", operand))
	}
	at := m.integers[a[2]]
	if a[1] != "" {
		at += number(a[1])
	}
	if a[3] != "" {
		at += m.integers[a[3]] * number(a[4])
	}
	return at
}

func number(text string) int {
	v, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(err)
	}
	return int(v)
}

// word returns the value at an address.
func (m *machine) word(at int) *uint32 {
	if at >= selectionAddress {
		selected := uint32(0)
		if at < selectionAddress+4*narrow {
			selected = 1<<32 - 1
		}
		return &selected
	}
	if at%4 != 0 {
		panic("an address between two values")
	}
	return &m.memory[at/4]
}

// move loads the selected lanes and clears the others, or stores the selected lanes.
func (m *machine) move(from, to string, selected func(lane int) bool) {
	if strings.Contains(from, "(") {
		at, v := m.address(from), make([]uint32, lanesOf(to))
		for lane := range v {
			if selected(lane) {
				v[lane] = *m.word(at + 4*lane)
			}
		}
		m.vectors[to] = v
		return
	}
	at := m.address(to)
	for lane, v := range m.vectors[from] {
		if selected(lane) {
			*m.word(at + 4*lane) = v
		}
	}
}

func (m *machine) broadcast(operand string, lanes int) []uint32 {
	value := uint32(0)
	if a := argumentOperand.FindStringSubmatch(operand); a != nil {
		value = math.Float32bits(m.numbers[a[1]])
	} else {
		value = *m.word(m.address(operand))
	}
	return slices.Repeat([]uint32{value}, lanes)
}

// combine sets each lane of a register to a function of two others and itself.
func (m *machine) combine(x, y []uint32, to string, f func(x, y, old float64) float64) {
	old, result := m.vectors[to], make([]uint32, len(x))
	for lane := range result {
		var before float32
		if old != nil {
			before = math.Float32frombits(old[lane])
		}
		v := f(float64(math.Float32frombits(x[lane])), float64(math.Float32frombits(y[lane])), float64(before))
		result[lane] = math.Float32bits(float32(v))
	}
	m.vectors[to] = result
}
