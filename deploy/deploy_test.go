// Package deploy has tests alone: they check the files with which others run stagewise. It is a module of its own, so
// that the program does not depend on what the tests need.
package deploy

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// render renders the Kubernetes files as kubectl does it, with these lines added to the kustomization. Each object has known fields alone.
func render(t *testing.T, more string) (pods map[string]corev1.PodTemplateSpec, deployments []appsv1.Deployment, others map[string][]any) {
	t.Helper()
	files := filesys.MakeFsInMemory()
	folder := os.DirFS("kubernetes")
	noError(t, fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		if path == "kustomization.yaml" {
			content = append(content, more...)
		}
		return errors.Join(err, files.WriteFile("/"+path, content))
	}))
	rendered := must(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/"))(t)
	pods, others = map[string]corev1.PodTemplateSpec{}, map[string][]any{}
	kinds := map[string]any{"ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{}, "Secret": &corev1.Secret{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "NetworkPolicy": &networkingv1.NetworkPolicy{},
		"Deployment": &appsv1.Deployment{}, "Job": &batchv1.Job{},
		"HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{}, "ScaledObject": &kedav1alpha1.ScaledObject{}}
	for _, r := range rendered.Resources() {
		content := must(r.AsYAML())(t)
		kind, known := kinds[r.GetKind()]
		if !known {
			t.Fatalf("%s %s: a kind that this test does not know", r.GetKind(), r.GetName())
		}
		object := reflect.New(reflect.TypeOf(kind).Elem()).Interface()
		err := yaml.UnmarshalStrict(content, object)
		check(t, err == nil, "%v in\n%s", err, content)
		switch o := object.(type) {
		case *appsv1.Deployment:
			pods[o.Name], deployments = o.Spec.Template, append(deployments, *o)
		case *batchv1.Job:
			pods[o.Name] = o.Spec.Template
		default:
			others[r.GetKind()] = append(others[r.GetKind()], object)
		}
	}
	return pods, deployments, others
}

// Each role has a Deployment whose pods are what they must be to run anywhere; a Job creates the topics; all share one configuration.
func TestKubernetes(t *testing.T) {
	pods, deployments, others := render(t, "")
	var roles, budgets []string
	configuration := others["ConfigMap"][0].(*corev1.ConfigMap)
	for _, d := range deployments {
		role := d.Labels["app.kubernetes.io/component"]
		roles = append(roles, role)
		checkRole(t, role, &d)
		checkMemory(t, &d, configuration.Data["job.yaml"])
	}
	for name, pod := range pods {
		checkPod(t, name, &pod.Spec, configuration.Name)
	}
	slices.Sort(roles)
	check(t, slices.Equal(roles, []string{"ingest", "page", "run", "score", "serve", "solve", "work"}) && len(pods) == len(roles)+1 &&
		len(others["ConfigMap"]) == 1 && configuration.Data["job.yaml"] != "", "roles %v, %d pods", roles, len(pods))
	for _, o := range others["PodDisruptionBudget"] {
		budgets = append(budgets, o.(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels["app.kubernetes.io/component"])
	}
	if slices.Sort(budgets); !slices.Equal(budgets, slices.DeleteFunc(roles, func(role string) bool { return role == "page" })) {
		t.Errorf("disruption budgets of %v, expected all roles with more than one pod", budgets)
	}
}

// Clients and ingress controllers reach predictions, Prometheus reaches metrics, and nobody else reaches anything.
func TestNetworkPolicy(t *testing.T) {
	_, _, others := render(t, "")
	reached := map[string][]string{}
	for _, rule := range others["NetworkPolicy"][0].(*networkingv1.NetworkPolicy).Spec.Ingress {
		for _, from := range rule.From {
			for _, port := range rule.Ports {
				who := ""
				for _, selector := range []*metav1.LabelSelector{from.PodSelector, from.NamespaceSelector} {
					who += metav1.FormatLabelSelector(cmp.Or(selector, &metav1.LabelSelector{}))
				}
				reached[port.Port.String()] = append(reached[port.Port.String()], who)
			}
		}
	}
	const none = "<none>"
	want := map[string][]string{"http": {"stagewise-client=true" + none, none + "kubernetes.io/metadata.name=ingress-nginx"},
		"metrics": {none + "kubernetes.io/metadata.name=monitoring"}}
	check(t, reflect.DeepEqual(reached, want), "%v, expected %v", reached, want)
}

// With the component, each pod has the credentials, as variables of keys and as files of the Secret.
func TestSecured(t *testing.T) {
	pods, _, others := render(t, "\ncomponents: [secured]\n")
	secret := others["Secret"][0].(*corev1.Secret)
	for name, pod := range pods {
		checkPod(t, name, &pod.Spec, others["ConfigMap"][0].(*corev1.ConfigMap).Name)
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret.Name })
		files := 0
		for _, e := range pod.Spec.Containers[0].Env {
			if key, is := strings.CutPrefix(e.Value, "/run/secrets/stagewise/"); is && secret.Data[key] != nil {
				files++
			}
		}
		check(t, i >= 0 && files == len(secret.Data), "%s: volumes %v, %d files of %d", name, pod.Spec.Volumes, files, len(secret.Data))
	}
}

// With the component, the Deployments that an autoscaler scales have no number of pods, and no more may be started than there are
// partitions. The triggers name the brokers and topics of the configuration.
func TestAutoscaled(t *testing.T) {
	_, deployments, others := render(t, "\ncomponents: [autoscaled]\n")
	var says struct {
		Name     string   `json:"name"`
		Brokers  []string `json:"brokers"`
		Examples struct {
			Partitions int32 `json:"partitions"`
		} `json:"examples"`
	}
	noError(t, yaml.Unmarshal([]byte(others["ConfigMap"][0].(*corev1.ConfigMap).Data["job.yaml"]), &says))
	scaled := map[string]bool{}
	for _, o := range others["HorizontalPodAutoscaler"] {
		h := o.(*autoscalingv2.HorizontalPodAutoscaler)
		scaled[h.Spec.ScaleTargetRef.Name] = true
		check(t, *h.Spec.MinReplicas >= 2 && h.Spec.ScaleTargetRef.Kind == "Deployment" && h.Spec.Metrics[0].Resource.Name == corev1.ResourceCPU,
			"%s: %+v", h.Name, h.Spec)
	}
	for _, o := range others["ScaledObject"] {
		k := o.(*kedav1alpha1.ScaledObject)
		scaled[k.Spec.ScaleTargetRef.Name] = true
		kafka := k.Spec.Triggers[0].Metadata
		role := strings.TrimPrefix(k.Name, "stagewise-")
		group := map[string]string{"score": says.Name + ".predictions", "work": says.Name + ".work"}[role]
		check(t, *k.Spec.MinReplicaCount >= 2 && *k.Spec.MaxReplicaCount <= says.Examples.Partitions &&
			kafka["bootstrapServers"] == says.Brokers[0] && kafka["topic"] == says.Name+".examples" && kafka["consumerGroup"] == group,
			"%s: %+v", k.Name, k.Spec)
	}
	for _, d := range deployments {
		check(t, scaled[d.Name] == (d.Spec.Replicas == nil), "%s: replicas %v, scaled: %v", d.Name, d.Spec.Replicas, scaled[d.Name])
		delete(scaled, d.Name)
	}
	check(t, len(scaled) == 0 && len(others["ScaledObject"]) == 2 && len(others["HorizontalPodAutoscaler"]) == 1,
		"no Deployments %v; %d and %d objects", scaled, len(others["ScaledObject"]), len(others["HorizontalPodAutoscaler"]))
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
	check(t, goes.Value() >= limit*8/10 && goes.Value() <= limit*9/10, "%s: GOMEMLIMIT is %s of %d bytes", d.Name, goes.String(), limit)
	var says struct {
		Memory *string `json:"memory"`
		Serve  struct {
			Memory int64 `json:"memory"`
		} `json:"serve"`
	}
	noError(t, yaml.Unmarshal([]byte(configuration), &says))
	if says.Memory != nil {
		t.Errorf("memory is %s in the configuration of all roles, whose containers have different limits", *says.Memory)
	}
	requests := cmp.Or(says.Serve.Memory, 256<<20)
	check(t, 2*requests <= limit, "%s: requests and answers may take %d bytes, and as much garbage, of %d", d.Name, requests, limit)
}

// checkRole checks that a Deployment finds its pods, that they are watched, and that no two of a role need be on one node.
func checkRole(t *testing.T, role string, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	for key, value := range d.Spec.Selector.MatchLabels {
		check(t, d.Spec.Template.Labels[key] == value,
			"%s: the selector wants %s: %s, the pods have %q", role, key, value, d.Spec.Template.Labels[key])
	}
	// serve answers requests for serve.drain, then those that it has received for serve.timeout, and then writes answers for as long
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	check(t, grace >= 5*time.Second+2*10*time.Second, "%s: pods end within %v", role, grace)
	check(t, len(d.Spec.Selector.MatchLabels) == 2 && (*d.Spec.Replicas >= 2 || role == "page"),
		"%s: selector %v, %d replicas", role, d.Spec.Selector.MatchLabels, *d.Spec.Replicas)
	spread := pod.TopologySpreadConstraints
	check(t, len(spread) == 1 && spread[0].TopologyKey == "kubernetes.io/hostname" && spread[0].WhenUnsatisfiable == corev1.DoNotSchedule &&
		slices.Contains(spread[0].MatchLabelKeys, "app.kubernetes.io/component"), "%s: spread %+v", role, spread)
	c := pod.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	check(t, ports["metrics"] == (role != "page") && ports["http"] == (role == "serve") && c.Args[0] == role,
		"%s: ports %v, arguments %v", role, ports, c.Args)
	for path, probe := range map[string]*corev1.Probe{"/live": c.LivenessProbe, "/ready": c.ReadinessProbe} {
		switch {
		case probe == nil, probe.Exec == nil && probe.HTTPGet == nil:
			t.Errorf("%s: no probe of %s", role, path)
		case role == "page": // which listens on loopback, where the kubelet does not reach it
			check(t, probe.HTTPGet == nil && len(probe.Exec.Command) == 3 && probe.Exec.Command[1] == "health" &&
				strings.Contains(probe.Exec.Command[2], c.Args[4]), "%s: probe %+v", role, probe)
		case probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "metrics":
			t.Errorf("%s: probe %+v", role, probe.HTTPGet)
		}
	}
}

// checkPod checks that a pod has no rights that it does not need, bounds, no variables of Services, and the volumes that it mounts.
func checkPod(t *testing.T, name string, pod *corev1.PodSpec, configuration string) {
	t.Helper()
	check(t, *pod.SecurityContext.RunAsNonRoot && len(pod.Containers) == 1 && !*pod.EnableServiceLinks && !*pod.AutomountServiceAccountToken,
		"%s: %+v", name, pod)
	c := pod.Containers[0]
	check(t, !c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "%s: resources %+v", name, c.Resources)
	rights := c.SecurityContext
	check(t, *rights.ReadOnlyRootFilesystem && !*rights.AllowPrivilegeEscalation, "%s: %+v", name, rights)
	check(t, c.Image == "registry.example/stagewise:latest", "%s: image %s", name, c.Image)
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && v.ConfigMap.Name != configuration {
			t.Errorf("%s: the configuration %s is not the one that is generated", name, v.ConfigMap.Name)
		}
	}
	for _, m := range c.VolumeMounts {
		check(t, volumes[m.Name], "%s: no volume %s", name, m.Name)
	}
}

// The container's user is not root, it has a health check, what it copies is there, and its images have versions.
func TestContainerfile(t *testing.T) {
	content := must(os.ReadFile("Containerfile"))(t)
	stages, _, err := instructions.Parse(must(parser.Parse(bytes.NewReader(content)))(t).AST, nil)
	noError(t, err)
	user, healthy := "", false
	for _, stage := range stages {
		_, tag, any := strings.Cut(stage.BaseName, ":")
		check(t, any && tag != "latest", "FROM %s: expected a version", stage.BaseName)
		for _, command := range stage.Commands {
			switch c := command.(type) {
			case *instructions.CopyCommand:
				for _, path := range c.SourcePaths {
					_, err := os.Stat("../" + path)
					check(t, c.From != "" || err == nil, "COPY %s: %v", path, err)
				}
			case *instructions.UserCommand:
				user = c.User
			case *instructions.HealthCheckCommand:
				healthy = slices.Contains(c.Health.Test, "health")
			}
		}
	}
	check(t, user != "" && !strings.HasPrefix(user, "0") && !strings.HasPrefix(user, "root"), "the user of the container is %q", user)
	check(t, healthy && len(stages) == 2, "a health check: %v, stages: %d", healthy, len(stages))
}

// check reports an error of the test, with the format and its values, unless a condition holds.
func check(t *testing.T, holds bool, format string, values ...any) {
	if !holds {
		t.Helper()
		t.Errorf(format, values...)
	}
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns a value, or ends the test if the error with it is not nil.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return value
	}
}
