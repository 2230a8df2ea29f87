package telemetry

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

var metricName = regexp.MustCompile(`\bstagewise_[a-z_]+`)

// A dashboard has something in each panel while nobody but run works: what other roles have is in rows that are folded.
func TestDashboardOfARunnerAlone(t *testing.T) {
	content := arrowtest.Must(os.ReadFile("../../../deploy/monitoring/dashboard.json"))(t)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Collapsed   bool
			Targets     []struct{ Expr string }
			Panels      []any
		}
	}
	arrowtest.NoError(t, json.Unmarshal(content, &dashboard))
	m := newMetrics("p", protocol.RoleRun, clock)
	for _, e := range runEvents() {
		m.Record(e)
	}
	families := arrowtest.Must(m.registry.Gather())(t)
	has := map[string]bool{}
	for _, f := range families {
		has[f.GetName()] = true
	}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			if !p.Collapsed || len(p.Panels) == 0 {
				t.Errorf("the row %q is unfolded, or empty", p.Title)
			}
			continue
		}
		filled := false
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				filled = filled || has[name]
			}
		}
		if !filled {
			t.Errorf("the panel %q is empty while run works alone", p.Title)
		}
	}
}

// Alerts, dashboard and pages name metrics that some role has.
func TestMetricsThatAreNamedExist(t *testing.T) {
	var code strings.Builder
	for _, file := range []string{"metrics.go", "../../../serve/metrics.go", "../../../serve/topic.go"} {
		content := arrowtest.Must(os.ReadFile(file))(t)
		code.Write(content)
	}
	for _, file := range []string{"deploy/monitoring/alerts.yaml", "deploy/monitoring/alerts_test.yaml",
		"deploy/monitoring/dashboard.json", "docs/operating.md", "docs/serving.md"} {
		content := arrowtest.Must(os.ReadFile("../../../" + file))(t)
		for _, name := range metricName.FindAllString(string(content), -1) {
			plain := strings.TrimSuffix(strings.TrimPrefix(name, "stagewise_"), "_bucket")
			if !strings.Contains(code.String(), `"`+plain+`"`) {
				t.Errorf("%s: no role has the metric %s", file, name)
			}
		}
	}
}
