package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// generators returns what the command data of scripts writes, by name.
func generators() map[string]func(rows int, seed uint64) string {
	first := func(a, _ string) string { return a }
	second := func(_, b string) string { return b }
	return map[string]func(rows int, seed uint64) string{
		"blobs": blobs, "hours": hours, "rare": rareRows, "numbers": numberRows,
		"garden":        func(rows int, _ uint64) string { return garden(rows) },
		"clicks":        func(rows int, seed uint64) string { return first(clicks(rows, seed)) },
		"clicks.jsonl":  func(rows int, seed uint64) string { return second(clicks(rows, seed)) },
		"words":         func(rows int, seed uint64) string { return first(counted(rows, seed)) },
		"words.csv":     func(rows int, seed uint64) string { return second(counted(rows, seed)) },
		"measured":      func(rows int, seed uint64) string { return first(measured(rows, seed, 0)) },
		"measured0":     func(rows int, seed uint64) string { return second(measured(rows, seed, 0)) },
		"measured1":     func(rows int, seed uint64) string { return second(measured(rows, seed, 1)) },
		"several":       func(rows int, seed uint64) string { return severalRows(rows, seed, "") },
		"several+rare":  func(rows int, seed uint64) string { return severalRows(rows, seed, "rare") },
		"strokes":       func(rows int, seed uint64) string { return first(strokes(rows, int(seed))) },
		"stroke labels": func(rows int, seed uint64) string { return second(strokes(rows, int(seed))) },
	}
}

// blobs returns a CSV file of three classes, whose rows are normally distributed around three different corners.
func blobs(rows int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"red", "green", "blue"}
	var b strings.Builder
	for i := range rows {
		class := i % len(names)
		fmt.Fprint(&b, names[class])
		for corner := range names {
			center := 0.0
			if corner == class {
				center = 4
			}
			fmt.Fprintf(&b, ",%.3f", center+random.NormFloat64())
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// garden is a CSV with columns of many kinds, of which the colour and the length say the kind.
func garden(rows int) string {
	random := rand.New(rand.NewPCG(1, 1))
	kinds, colours := []string{"iris", "rose", "tulip"}, []string{"blue", "red", "yellow: pale"}
	var out strings.Builder
	out.WriteString("id,length,width,colour,planted,note,same,no,kind\n")
	for i := range rows {
		k := random.IntN(3)
		length, colour := fmt.Sprintf("%.2f", 2*float64(k)+random.Float64()), colours[k]
		switch random.IntN(20) {
		case 0:
			length = "NA"
		case 1:
			length = "?"
		case 2:
			colour = colours[random.IntN(3)]
		}
		fmt.Fprintf(&out, "%d,%s,%.3f,%s,2026-03-%02d,a note on flower %d,x,%d,%s\n", 1000+7*i, length, random.Float64(), colour, 1+i%28, i,
			random.IntN(4), kinds[k])
	}
	return out.String()
}

// clicks returns rows of events as CSV and JSON Lines. Whether there is a click depends on a number, a word of the text, and on site and ad
// together.
func clicks(n int, seed uint64) (table, lines string) {
	r := rand.New(rand.NewPCG(seed, 3))
	var rows, objects strings.Builder
	rows.WriteString("click,site,ad,age,price,message\n")
	words := strings.Fields("alpha beta gamma delta epsilon zeta")
	for range n {
		site, ad, age, price := r.IntN(12), r.IntN(9), 2000+5*r.NormFloat64(), r.Float64()
		text := words[r.IntN(6)] + " " + words[r.IntN(6)]
		score := 2*float64((site*5+ad*3)%7%2) - 1 + (age-2000)/5
		if strings.Contains(text, "alpha") {
			score++
		}
		click := "no"
		if score+0.2*r.NormFloat64() > 0 {
			click = "yes"
		}
		fmt.Fprintf(&rows, "%s,s%d,%d,%g,%g,%s\n", click, site, ad, age, price, text)
		fmt.Fprintf(&objects, `{"message":%q,"price":%g,"age":%g,"ad":%d,"site":"s%d","click":%q}`+"\n", text, price, age, ad, site, click)
	}
	return rows.String(), objects.String()
}

// counted is a LIBSVM file of texts as counts of words: each class has words that it uses more often, and one word in
// three is of no class. It also returns the same rows as a CSV, of all columns.
func counted(rows int, seed uint64) (sparse, dense string) {
	r := rand.New(rand.NewPCG(seed, 2))
	var lines, table strings.Builder
	for i := range rows {
		class, counts := i%3, map[int]int{}
		for range 12 {
			word := r.IntN(60)
			if r.IntN(3) > 0 {
				word = 20*class + r.IntN(20)
			}
			counts[word]++
		}
		fmt.Fprintf(&lines, "topic%d", class)
		fmt.Fprintf(&table, "topic%d", class)
		for word := range 60 {
			if n := counts[word]; n > 0 {
				fmt.Fprintf(&lines, " %d:%d", word, n)
			}
			fmt.Fprintf(&table, ",%d", counts[word])
		}
		lines.WriteByte('\n')
		table.WriteByte('\n')
	}
	return lines.String(), table.String()
}

// hours are rows whose state follows from the hour and the weekday.
func hours(rows int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 1))
	var out strings.Builder
	out.WriteString("x,created,state\n")
	for range rows {
		at := time.Unix(1_790_000_000+random.Int64N(30_000_000), 0).UTC()
		state := "quiet"
		if at.Hour() >= 8 && at.Hour() < 18 && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
			state = "busy"
		}
		fmt.Fprintf(&out, "%.3f,%s,%s\n", random.Float64(), at.Format("2006-01-02 15:04"), state)
	}
	return out.String()
}

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

// measured returns rows of numbers as CSV and as LIBSVM, with indices from base on and without their zeros.
func measured(rows int, seed uint64, base int) (csv, libsvm string) {
	r := rand.New(rand.NewPCG(seed, 1))
	var table, sparse strings.Builder
	for i := range rows {
		fmt.Fprintf(&table, "%d", i%3)
		fmt.Fprintf(&sparse, "%d", i%3)
		for j := range 40 {
			v := float64(r.IntN(4)) / 4 * float64(1+j%7)
			if j%3 == i%3 {
				v += 0.5
			}
			if table.WriteString("," + strconv.FormatFloat(v, 'g', -1, 64)); v != 0 {
				fmt.Fprintf(&sparse, " %d:%g", j+base, v)
			}
		}
		table.WriteString("\n")
		sparse.WriteString("\n")
	}
	return table.String(), sparse.String()
}

// rareRows returns CSV of two classes that overlap: one row of twenty is rare.
func rareRows(n int, seed uint64) string {
	r, text := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
	for range n {
		label, center := "common", 0.0
		if r.IntN(20) == 0 {
			label, center = "rare", 1.5
		}
		fmt.Fprintf(&text, "%s,%.4f,%.4f\n", label, center+r.NormFloat64(), center+r.NormFloat64())
	}
	return text.String()
}

// severalRows returns CSV of two features and the labels of a row: right, up, both or none, and in some rows the label extra.
func severalRows(n int, seed uint64, extra string) string {
	r, text := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
	text.WriteString("tags,x,y\n")
	for i := range n {
		x, y, labels := r.NormFloat64(), r.NormFloat64(), []string{}
		if x+0.2*r.NormFloat64() > 0 {
			labels = append(labels, "right")
		}
		if y+0.2*r.NormFloat64() > 0.5 {
			labels = append(labels, "up")
		}
		if extra != "" && i%50 == 0 {
			labels = append(labels, extra)
		}
		fmt.Fprintf(&text, "%s,%.4f,%.4f\n", strings.Join(labels, "|"), x, y)
	}
	return text.String()
}

// numberRows returns CSV of two features and two numbers to predict: one linear, far from 0, one not linear.
func numberRows(n int, seed uint64) string {
	r, text := rand.New(rand.NewPCG(seed, 1)), strings.Builder{}
	text.WriteString("a,price,b,rate\n")
	for range n {
		a, b := r.NormFloat64(), r.NormFloat64()
		price, rate := 1e5+300*a-200*b+10*r.NormFloat64(), 0.01*(math.Sin(2*a)*b)+0.001*r.NormFloat64()
		fmt.Fprintf(&text, "%.5f,%.3f,%.5f,%.6f\n", a, price, b, rate)
	}
	return text.String()
}
