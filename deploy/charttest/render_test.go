// Package charttest proves the charts and the compose file: every mode renders,
// every object decodes strictly, and what a mode may do is asserted on the rules
// themselves. It needs no cluster and no network. What it reads lies behind links
// in testdata: go test forgets a cached result when such a file changes, and does
// not for one outside the module.
package charttest

import (
	"bufio"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// crds are the kinds that are not Kubernetes' own: only their names are checked.
var crds = []string{"PodMonitor", "PrometheusRule"}

// release is one rendered chart.
type release struct {
	objects []runtime.Object
	notes   string
}

// renderErr renders testdata/helm/CHART with values given in YAML over the chart's own.
func renderErr(t *testing.T, chart, values string) (release, error) {
	t.Helper()
	c, err := loader.LoadDir(path.Join("testdata/helm", chart))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := sigsyaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: "lab", Namespace: "plimsoll", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return release{}, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return release{}, err
	}
	var r release
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			r.notes = files[name]
			continue
		}
		r.objects = append(r.objects, decode(t, name, files[name])...)
	}
	return r, nil
}

func render(t *testing.T, chart, values string) release {
	t.Helper()
	r, err := renderErr(t, chart, values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decode reads every document of a rendered file; an unknown or repeated field,
// or a kind that is neither Kubernetes' own nor in crds, fails the test.
func decode(t *testing.T, name, content string) (objects []runtime.Object) {
	t.Helper()
	docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(content)))
	for {
		doc, err := docs.Read()
		if err == io.EOF {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var u map[string]any
		if err := sigsyaml.UnmarshalStrict(doc, &u); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		if len(u) == 0 {
			continue
		}
		if kind, _ := u["kind"].(string); slices.Contains(crds, kind) {
			objects = append(objects, &unstructured.Unstructured{Object: u})
			continue
		}
		o, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, doc)
		}
		objects = append(objects, o)
	}
}

// all returns the objects of one type, one exactly that one.
func all[T runtime.Object](r release) (found []T) {
	for _, o := range r.objects {
		if t, ok := o.(T); ok {
			found = append(found, t)
		}
	}
	return found
}

func one[T runtime.Object](t *testing.T, r release) T {
	t.Helper()
	found := all[T](r)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func kinds(r release) (names []string) {
	for _, o := range r.objects {
		names = append(names, o.GetObjectKind().GroupVersionKind().Kind)
	}
	slices.Sort(names)
	return names
}
