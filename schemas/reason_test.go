package schemas

import "testing"

// A reason names the column, and says what was expected, without the values of the row.
func TestWithoutValues(t *testing.T) {
	for reason, want := range map[string]string{
		`column "card": "4111 1111 1111 1111" is not a number`:                                                `column "card": … is not a number`,
		`column "card": "say \"4111\"" is not a number`:                                                       `column "card": … is not a number`,
		`column "card": "4111 1111 111`:                                                                       `column "card": …`,
		`column 3 ("card"): 4111111111111111 is not a number`:                                                 `column 3 ("card"): … is not a number`,
		`row 2, counted from 0: column "w": weight -4111: expected a finite number ≥ 0`:                       `row 2, counted from 0: column "w": weight …: expected a finite number ≥ …`,
		`label "Jane Doe" is not one of the classes`:                                                          `label … is not one of the classes`,
		`labels "a;b": expected one label, or examples.labels: several`:                                       `labels …: expected one label, or examples.labels: several`,
		`rows of labels "Jane", "Doe" and 3 more are left out: no class of the version before`:                `rows of labels …, … and 3 more are left out: no class of the version before`,
		`no column "kind": the object has "Kind", "length" and 7 more: examples.label names the label column`: `no column "kind": the object has "Kind", "length" and 7 more: examples.label names the label column`,
		`no value in column "length"; the message has "Length": has a producer renamed it?`:                   `no value in column "length"; the message has "Length": has a producer renamed it?`,
		`no key at "of.view" (examples.outcome.key)`:                                                          `no key at "of.view" (examples.outcome.key)`,
		`examples.key: "user.id": "Jane" is an object`:                                                        `examples.key: "user.id": … is an object`,
		`rows with the keys "Jane" and "Doe": expected one key per message`:                                   `rows with the keys … and …: expected one key per message`,
		`49 columns: expected 50`:                                                                             `49 columns: expected 50`,
		`1e39 is not a finite float32`:                                                                        `… is not a finite float32`,
		`[4111, "Jane"]: expected an object`:                                                                  `[…, …]: expected an object`,
		`strconv.ParseFloat: parsing "4111-x": invalid syntax`:                                                `strconv.ParseFloat: parsing …: invalid syntax`,
		`the value is not UTF-8: set examples.encoding, such as windows-1252`:                                 `the value is not UTF-8: set examples.encoding, such as windows-1252`,
		`serializers (a zero byte and the schema ID 7): expected`:                                             `serializers (a zero byte and the schema ID 7): expected`,
		`no column "kind": the object has "data". The column is in "data"`:                                    `no column "kind": the object has "data". The column is in "data"`,
		`the schema 3 is unknown`:                                                                             `the schema 3 is unknown`,
		`rows 0, 1, 12 and 2 more are left out: the features overflow`:                                        `rows 0, 1, 12 and 2 more are left out: the features overflow`,
		`row 0, feature 1: +Inf is not a finite number`:                                                       `row 0, feature 1: +Inf is not a finite number`,
		`no label`: `no label`,
		``:         ``,
	} {
		if got := WithoutValues(reason); got != want {
			t.Errorf("%s\n%s, expected\n%s", reason, got, want)
		}
	}
}
