package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	packPods = "name,cpu_milli,mem_mib,gpu_count,gpu_milli,gpu_models,spot_ok\n" +
		"a,2000,1000,0,0,,0\nb,2000,1000,0,0,,0\nc,1000,1000,1,500,T4,1\nd,1000,1000,1,1000,H100,1\n"
	packCatalog = "instance_type,cloud,region,zone,capacity_type,price_per_hour,vcpu,memory_mib,gpu_model,gpu_count,arch,alloc_cpu_milli,alloc_mem_mib,max_pods,family\n" +
		"small,aws,r,z,on-demand,0.1,4,8192,,0,amd64,4000,8000,110,s\ngpu,aws,r,z,spot,0.4,8,8192,T4,1,amd64,2000,8000,110,g\nfree,aws,r,z,on-demand,0,96,99999,H100,8,amd64,96000,90000,110,f\n"
)

// packRun writes the files and runs the command.
func packRun(t *testing.T, files map[string]string, args ...string) (int, string, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		data := []byte(text)
		if strings.HasSuffix(name, ".gz") {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(data); err != nil {
				t.Fatal(err)
			}
			z.Close()
			data = b.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range args {
		if _, ok := files[a]; ok {
			args[i] = filepath.Join(dir, a)
		}
	}
	var out, errs bytes.Buffer
	code := run(context.Background(), append([]string{"pack"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestPackTellsMachinesCostBoundAndWhyAPodIsLeftOut(t *testing.T) {
	t.Parallel()
	code, out, errs := packRun(t, map[string]string{"p.csv.gz": packPods, "c.csv": packCatalog}, "-pods", "p.csv.gz", "-catalog", "c.csv")
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"3 pods (2 shapes) on 2 nodes: 0.50 $/h", "unschedulable: d", "price 1 (1 fail only this)", "gpu_model 2", "CPU-seconds"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestPackFromRunningMachinesLeavesThemAndTellsWhatMoves(t *testing.T) {
	t.Parallel()
	running := "node,instance_type,zone,capacity_type,pod\nn1,small,z,on-demand,a\nn1,small,z,on-demand,gone\nn2,gpu,z,spot,\n"
	code, out, errs := packRun(t, map[string]string{"p.csv": packPods, "c.csv": packCatalog, "r.csv": running}, "-pods", "p.csv", "-catalog", "c.csv", "-existing", "r.csv", "-json")
	if code != 0 {
		t.Fatal(errs)
	}
	var d packDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.CostPerHour != "0.50" || d.Change == nil || len(d.Change.Moved) != 0 || len(d.Change.Ended) != 1 || d.Change.Ended[0] != "n2" || d.Nodes[0].Node != "n1" || strings.Join(d.Nodes[0].Pods, "") != "ab" {
		t.Errorf("%+v, change %+v", d, d.Change)
	}
}

func TestPackRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files map[string]string
		args  []string
		want  string
	}{
		{name: "no files", args: nil, want: "-pods"},
		{name: "a file that is not there", args: []string{"-pods", "nowhere.csv", "-catalog", "nowhere.csv"}, want: "nowhere.csv"},
		{name: "a line that is not a pod", files: map[string]string{"p.csv": packPods + "e,many,1,0,0,,0\n", "c.csv": packCatalog}, args: []string{"-pods", "p.csv", "-catalog", "c.csv"}, want: "line 6"},
		{name: "a machine that the catalogue does not have", files: map[string]string{"p.csv": packPods, "c.csv": packCatalog, "r.csv": "node,instance_type,zone,capacity_type,pod\nn1,other,z,spot,a\n"},
			args: []string{"-pods", "p.csv", "-catalog", "c.csv", "-existing", "r.csv"}, want: "does not have"},
		{name: "what is not gzip", files: map[string]string{"c.csv": packCatalog}, args: []string{"-pods", "c.csv", "-catalog", "c.csv.gz"}, want: ""},
	} {
		if code, _, errs := packRun(t, c.files, c.args...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, want %q in it", c.name, code, errs, c.want)
		}
	}
}

func TestPackReadsConstraintsFromTablesAndFiles(t *testing.T) {
	t.Parallel()
	pods := "name,cpu_milli,mem_mib,gpu_count,gpu_milli,gpu_models,spot_ok,workload,labels,spread,where,class\n" +
		"a,2000,1000,0,0,,0,web,web,web@zone:1,,\nb,2000,1000,0,0,,0,web,web,web@zone:1,,\nc,1000,1000,0,0,,0,job,,,zone=nowhere,\nd,4000,1000,0,0,,0,night,,,,batch\n"
	catalog := packCatalog + "small,aws,r,y,on-demand,0.2,4,8192,,0,amd64,4000,8000,110,s\n"
	rules := "budget_per_hour: \"0.3\"\nlimits:\n- {name: few, where: [family=s], resource: nodes, max: 5}\ndaemons:\n- {name: logs, cpu_milli: 100, mem_mib: 10}\n"
	code, out, errs := packRun(t, map[string]string{"p.csv": pods, "c.csv": catalog, "k.yaml": rules}, "-pods", "p.csv", "-catalog", "c.csv", "-constraints", "k.yaml", "-json")
	if code != 0 {
		t.Fatal(errs)
	}
	var d packDocument
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, u := range d.Unschedulable {
		for _, r := range u.Reasons {
			why[u.Pod] += r.Constraint + " " + r.Detail + ";"
		}
		why[u.Pod] += strings.Join(u.Blocked, "+")
	}
	if d.CostPerHour != "0.30" || len(d.Nodes) != 2 || d.Nodes[0].Zone == d.Nodes[1].Zone || len(why) != 2 || !strings.HasSuffix(why["c"], "where") || why["d"] == "" {
		t.Errorf("%s $/h, %+v, %v", d.CostPerHour, d.Nodes, why)
	}
	for name, text := range map[string]string{"an unknown field": "limit: []\n", "an unknown resource": "limits: [{name: x, resource: apples}]\n", "a term without a place": "workloads: [{workload: w, affinity: [x]}]\n"} {
		if code, _, errs := packRun(t, map[string]string{"p.csv": packPods, "c.csv": packCatalog, "k.yaml": text}, "-pods", "p.csv", "-catalog", "c.csv", "-constraints", "k.yaml"); code == 0 || errs == "" {
			t.Errorf("%s was taken", name)
		}
	}
}
