package collect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

func readingText(r gpuReading) string {
	out := r.Entity + " " + r.Namespace + "/" + r.Pod
	for _, k := range sortedKeys(r.Fields) {
		out += fmt.Sprintf(" %s=%g", k, r.Fields[k])
	}
	return out
}

func TestDCGMExporterText(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/dcgm_exporter.prom")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseDCGM(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GPU-aaaa llm/chat-0 dcgm_fi_dev_fb_used=70123 dcgm_fi_dev_gpu_util=87 dcgm_fi_dev_power_usage=512.25 dcgm_fi_dev_total_energy_consumption=2.14748364e+09 dcgm_fi_prof_sm_active=0.83",
		"GPU-bbbb / dcgm_fi_dev_gpu_util=0",
		"GPU-cccc/gi/13 llm/chat-1 dcgm_fi_dev_fb_used=4000 dcgm_fi_prof_sm_active=0.41",
	}
	if len(got) != len(want) {
		t.Fatalf("%d readings, want %d", len(got), len(want))
	}
	for i, w := range want {
		if readingText(got[i]) != w {
			t.Errorf("got  %s\nwant %s", readingText(got[i]), w)
		}
	}
}

func TestDCGMBlanks(t *testing.T) {
	t.Parallel()
	for v, blank := range map[float64]bool{
		0: false, 100: false, 2147483631: false, 2147483632: true, 2147483634: true, 2147483648: false,
		9223372036854775792: true, 140737488355328: true, 140737488355330: true, 140737488355320: false,
	} {
		if isBlank(v, false) != blank {
			t.Errorf("%.0f: blank is %v", v, !blank)
		}
	}
	if isBlank(2147483634, true) || !isBlank(9223372036854775794, true) {
		t.Error("a counter may have any value but the 64-bit placeholders")
	}
}

func pods(ready ...bool) []Pod {
	var out []Pod
	for i, r := range ready {
		out = append(out, Pod{UID: fmt.Sprint(i), Namespace: "llm", Name: fmt.Sprintf("chat-%d", i), Workload: "llm/StatefulSet/chat", Ready: r, IP: "127.0.0.1", CPUMilli: 1000})
	}
	return out
}

func TestGPUSignalsOfWorkloads(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/dcgm_exporter.prom")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	defer srv.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	defer down.Close()
	for _, c := range []struct {
		name string
		pods []Pod
		want string
	}{
		{"ready replicas are averaged", pods(true, true), "llm/StatefulSet/chat gpu_memory_used_mib=74123 r2 u0 m0 gpu_sm_active_ratio=0.62 r2 u0 m0 gpu_util_ratio=0.87 r1 u0 m1"},
		{"a replica that is not ready is silent, not idle", pods(true, false), "llm/StatefulSet/chat gpu_memory_used_mib=70123 r1 u1 m0 gpu_sm_active_ratio=0.83 r1 u1 m0 gpu_util_ratio=0.87 r1 u1 m0"},
		{"a ready replica without a reading is missing", pods(true, true, true), "llm/StatefulSet/chat gpu_memory_used_mib=74123 r2 u0 m1 gpu_sm_active_ratio=0.62 r2 u0 m1 gpu_util_ratio=0.87 r1 u0 m2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := NewDCGMExporter([]string{srv.URL, down.URL}).Collect(context.Background(), Input{NowMS: 5, Pods: c.pods})
			if err != nil {
				t.Fatal(err)
			}
			if got := workloadText(b.Workloads); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if len(b.Values) != 8 {
				t.Errorf("%d values for frames, want 8", len(b.Values))
			}
		})
	}
	if _, err := NewDCGMExporter([]string{down.URL}).Collect(context.Background(), Input{}); err == nil {
		t.Error("no exporter answered, and that is no error")
	}
}

func TestDCGMExporterSamplesOfOthers(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PLIMSOLL_SAMPLES")
	if dir == "" {
		t.Skip("PLIMSOLL_SAMPLES does not name a directory with recorded exporter pages")
	}
	for file, entities := range map[string]int{"dcgm_exporter_a100_mig.prom": 2, "dcgm_exporter_k8s_labels.prom": 1} {
		text, err := os.ReadFile(dir + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseDCGM(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(got) < entities {
			t.Errorf("%s: %d entities", file, len(got))
		}
		for _, r := range got {
			if _, ok := r.Fields["dcgm_fi_dev_memory_temp"]; ok && file == "dcgm_exporter_k8s_labels.prom" {
				t.Errorf("%s: a placeholder came through", file)
			}
		}
	}
}

func TestDriversOfNodesComeFromTheExporter(t *testing.T) {
	t.Parallel()
	text := []byte(`# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="n1",DCGM_FI_DRIVER_VERSION="550.54.14",namespace="",pod=""} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-b",Hostname="dcgm-exporter-x7k2p",DCGM_FI_DRIVER_VERSION="570.86.10",namespace="llm",pod="chat-0"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-c",Hostname="n3",DCGM_FI_DRIVER_VERSION="N/A",namespace="",pod=""} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-d",Hostname="n4",namespace="",pod=""} 1
`)
	readings, err := parseDCGM(text)
	if err != nil {
		t.Fatal(err)
	}
	got := gpuBatch(readings, Input{Pods: []Pod{{Namespace: "llm", Name: "chat-0", Node: "n2"}}}).Drivers
	if want := map[string]string{"n1": "550.54.14", "n2": "570.86.10"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("drivers %v, want %v", got, want)
	}

	inventory := func() Batch {
		return Batch{Inventory: &agentv1.Inventory{Nodes: []*agentv1.Node{{Uid: "1", Name: "n1"}, {Uid: "2", Name: "n2"}, {Uid: "9", Name: "n9"}}}}
	}
	c := &Collector{}
	told := func(drivers map[string]string) (out string) {
		cluster := inventory()
		c.addDrivers([]Batch{cluster, {Drivers: drivers}})
		for _, n := range cluster.Inventory.GetNodes() {
			out += n.GetName() + "=" + n.GetGpuDriver() + " "
		}
		return out
	}
	for _, step := range []struct {
		drivers map[string]string
		want    string
	}{
		{got, "n1=550.54.14 n2=570.86.10 n9= "},
		{nil, "n1=550.54.14 n2=570.86.10 n9= "}, // the exporter is silent
		{map[string]string{"n1": "580.1", "gone": "1"}, "n1=580.1 n2=570.86.10 n9= "},
	} {
		if said := told(step.drivers); said != step.want {
			t.Errorf("%v: %s", step.drivers, said)
		}
	}
	if len(c.drivers) != 2 {
		t.Errorf("drivers of nodes that are gone are kept: %v", c.drivers)
	}
}
