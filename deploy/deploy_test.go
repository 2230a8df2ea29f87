package deploy

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// The Kubernetes files are rendered as kubectl does it, and each object has known fields alone.
func TestKubernetes(t *testing.T) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	roles, configMaps := []string{}, []string{}
	var pods []appsv1.Deployment
	configuration := ""
	for _, r := range rendered.Resources() {
		content, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch r.GetKind() {
		case "Deployment":
			var d appsv1.Deployment
			decode(t, content, &d)
			roles = append(roles, d.Labels["app.kubernetes.io/component"])
			checkPod(t, d.Name, &d, configMaps)
			pods = append(pods, d)
		case "ConfigMap":
			var c corev1.ConfigMap
			decode(t, content, &c)
			configuration = c.Data["job.yaml"]
			if configMaps = append(configMaps, c.Name); c.Data["job.yaml"] == "" {
				t.Errorf("%s has no job.yaml", c.Name)
			}
		case "Service":
			decode(t, content, &corev1.Service{})
		case "PodDisruptionBudget":
			decode(t, content, &policyv1.PodDisruptionBudget{})
		case "NetworkPolicy":
			decode(t, content, &networkingv1.NetworkPolicy{})
		default:
			t.Errorf("%s %s: a kind that this test does not know", r.GetKind(), r.GetName())
		}
	}
	if slices.Sort(roles); !slices.Equal(roles, []string{"run", "serve", "solve", "work"}) || len(configMaps) != 1 {
		t.Errorf("roles %v, configurations %v", roles, configMaps)
	}
	for _, d := range pods {
		checkMemory(t, &d, configuration)
	}
}

// checkMemory checks that a pod stays within its limit: the collector begins before, and what the configuration allows
// leaves room. Without memory in the configuration a process takes half of what its container allows.
func checkMemory(t *testing.T, d *appsv1.Deployment, configuration string) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	limit := c.Resources.Limits.Memory().Value()
	goes := resource.Quantity{}
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			goes = resource.MustParse(strings.TrimSuffix(e.Value, "B")) // Go's MiB is Kubernetes' Mi
		}
	}
	if goes.Value() < limit*8/10 || goes.Value() > limit*9/10 {
		t.Errorf("%s: GOMEMLIMIT is %s of %d bytes", d.Name, goes.String(), limit)
	}
	var says struct {
		Memory *string `json:"memory"`
		Serve  struct {
			Memory int64 `json:"memory"`
		} `json:"serve"`
	}
	if err := yaml.Unmarshal([]byte(configuration), &says); err != nil {
		t.Fatal(err)
	}
	if says.Memory != nil {
		t.Errorf("memory is %s in the configuration of all roles, whose containers have different limits", *says.Memory)
	}
	if requests := cmp.Or(says.Serve.Memory, 256<<20); 2*requests > limit {
		t.Errorf("%s: requests and answers may take %d bytes, and as much garbage, of %d", d.Name, requests, limit)
	}
}

func decode(t *testing.T, content []byte, to any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(content, to); err != nil {
		t.Errorf("%v in\n%s", err, content)
	}
}

// checkPod checks that a pod is what it must be to run anywhere: no root, bounded, watched, and with labels that its selector finds.
func checkPod(t *testing.T, name string, d *appsv1.Deployment, configMaps []string) {
	pod := d.Spec.Template.Spec
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("%s: the selector wants %s: %s, the pods have %q", name, key, value, d.Spec.Template.Labels[key])
		}
	}
	if *d.Spec.Replicas < 2 || !*pod.SecurityContext.RunAsNonRoot || len(pod.Containers) != 1 {
		t.Errorf("%s: %d replicas, security %+v, %d containers", name, *d.Spec.Replicas, pod.SecurityContext, len(pod.Containers))
	}
	c := pod.Containers[0]
	switch {
	case c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/live", c.ReadinessProbe == nil ||
		c.ReadinessProbe.HTTPGet.Path != "/ready":
		t.Errorf("%s: no probes", name)
	case c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero():
		t.Errorf("%s: resources %+v", name, c.Resources)
	case !*c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation:
		t.Errorf("%s: %+v", name, c.SecurityContext)
	case c.Image != "registry.example/stagewise:latest":
		t.Errorf("%s: image %s", name, c.Image)
	case c.Args[0] != d.Labels["app.kubernetes.io/component"]:
		t.Errorf("%s: arguments %v", name, c.Args)
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if !ports[probe.HTTPGet.Port.String()] {
			t.Errorf("%s: a probe of port %s, which the container does not have", name, probe.HTTPGet.Port.String())
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && !strings.HasPrefix(v.ConfigMap.Name, "stagewise-") {
			t.Errorf("%s: the configuration %s is not the one that is generated", name, v.ConfigMap.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: no volume %s", name, m.Name)
		}
	}
}

// The container's user is not root, it has a health check, what it copies is there, and its images have versions.
func TestContainerfile(t *testing.T) {
	content, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	user, healthy := "", false
	for _, stage := range stages {
		if _, tag, any := strings.Cut(stage.BaseName, ":"); !any || tag == "latest" {
			t.Errorf("FROM %s: expected a version", stage.BaseName)
		}
		for _, command := range stage.Commands {
			switch c := command.(type) {
			case *instructions.CopyCommand:
				for _, path := range c.SourcePaths {
					if _, err := os.Stat("../" + path); c.From == "" && err != nil {
						t.Errorf("COPY %s: %v", path, err)
					}
				}
			case *instructions.UserCommand:
				user = c.User
			case *instructions.HealthCheckCommand:
				healthy = slices.Contains(c.Health.Test, "health")
			}
		}
	}
	if user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the user of the container is %q", user)
	}
	if !healthy || len(stages) != 2 {
		t.Errorf("a health check: %v, stages: %d", healthy, len(stages))
	}
}
