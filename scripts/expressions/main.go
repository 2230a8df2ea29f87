// Command expressions prints the queries of a Grafana dashboard as recording rules, which promtool can check.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := printRules(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "expressions: %v\n", err)
		os.Exit(1)
	}
}

// panel is a picture, or a row of them that may be folded.
type panel struct {
	Targets []struct{ Expr string }
	Panels  []panel
}

func (p panel) expressions() (all []string) {
	for _, target := range p.Targets {
		all = append(all, target.Expr)
	}
	for _, inner := range p.Panels {
		all = append(all, inner.expressions()...)
	}
	return all
}

func printRules(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var dashboard struct {
		Panels      []panel
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var expressions []string
	for _, p := range dashboard.Panels {
		expressions = append(expressions, p.expressions()...)
	}
	for _, a := range dashboard.Annotations.List {
		expressions = append(expressions, a.Expr)
	}
	if len(expressions) == 0 {
		return fmt.Errorf("%s has no queries", file)
	}
	fmt.Println("groups:\n- name: dashboard\n  rules:")
	for i, e := range expressions {
		// a variable of the dashboard is a text within a selector
		fmt.Printf("  - {record: %s, expr: %q}\n", fmt.Sprintf("dashboard:query:%d", i), strings.ReplaceAll(e, "$pipeline", "clicks"))
	}
	return nil
}
