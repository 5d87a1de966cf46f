package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The labels by which offerings of the lab differ, besides the well-known ones.
const (
	gpuNameLabel     = "karpenter.k8s.aws/instance-gpu-name"
	reservationLabel = "kubelab.test/reservation-id"

	kwokCPU, kwokMem = 100, 10 // what KWOK takes of each machine: milli-cores, MiB
)

// offer is a line of a catalogue: what the lab's cloud sells.
type offer struct {
	name, cloud, region, zone, way, gpu, reservation string
	price                                            float64
	cpu, mem, gpus, pods, count, vcpu                int64
}

// replica is a pod as the packing's files have it.
type replica struct {
	name     string
	cpu, mem int64
	gpus     int64
	models   []string
	spot     bool
}

// packingData is the folder with recorded pods and catalogues; empty: the
// built-in ones are used.
func packingData() string {
	dir := os.Getenv("PLIMSOLL_PACKING_DATA")
	if dir == "" {
		dir = "../../../../shared/data/packing"
	}
	if _, err := os.Stat(filepath.Join(dir, "catalog_500.csv")); err != nil {
		return ""
	}
	return dir
}

func table(t *testing.T, file string) []map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, name := range rows[0] {
			m[name] = row[i]
		}
		out = append(out, m)
	}
	return out
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// catalogue is the recorded one, or one of our own: public on-demand prices of
// EC2 in us-east-1 in 2026 and Spot at a share of them.
func catalogue(t *testing.T) []offer {
	t.Helper()
	dir := packingData()
	if dir == "" {
		return builtIn()
	}
	var out []offer
	for _, m := range table(t, filepath.Join(dir, "catalog_500.csv")) {
		price, err := strconv.ParseFloat(m["price_per_hour"], 64)
		if err != nil {
			t.Fatal(err)
		}
		if m["arch"] != "amd64" {
			continue
		}
		out = append(out, offer{name: m["instance_type"], cloud: m["cloud"], region: m["region"], zone: strings.ReplaceAll(m["zone"], "/", "-"), way: m["capacity_type"], gpu: m["gpu_model"],
			price: price, vcpu: number(t, m["vcpu"]), cpu: number(t, m["vcpu"])*1000 - kwokCPU, mem: number(t, m["alloc_mem_mib"]), gpus: number(t, m["gpu_count"]), pods: number(t, m["max_pods"])})
	}
	return out
}

func builtIn() []offer {
	var out []offer
	for _, x := range []struct {
		name      string
		vcpu, gib int64
		gpu       string
		gpus      int64
		price     float64
		spot      float64
	}{
		{"c6i.large", 2, 4, "", 0, 0.085, 0.4}, {"c6i.xlarge", 4, 8, "", 0, 0.17, 0.4}, {"c6i.2xlarge", 8, 16, "", 0, 0.34, 0.4}, {"c6i.4xlarge", 16, 32, "", 0, 0.68, 0.4},
		{"m6i.large", 2, 8, "", 0, 0.096, 0.4}, {"m6i.xlarge", 4, 16, "", 0, 0.192, 0.4}, {"m6i.2xlarge", 8, 32, "", 0, 0.384, 0.4}, {"m6i.4xlarge", 16, 64, "", 0, 0.768, 0.4}, {"m6i.8xlarge", 32, 128, "", 0, 1.536, 0.4},
		{"r6i.xlarge", 4, 32, "", 0, 0.252, 0.4}, {"r6i.2xlarge", 8, 64, "", 0, 0.504, 0.4}, {"r6i.4xlarge", 16, 128, "", 0, 1.008, 0.4},
		{"g4dn.xlarge", 4, 16, "T4", 1, 0.526, 0.38}, {"g4dn.2xlarge", 8, 32, "T4", 1, 0.752, 0.39}, {"g4dn.4xlarge", 16, 64, "T4", 1, 1.204, 0.36}, {"g4dn.8xlarge", 32, 128, "T4", 1, 2.176, 0.37}, {"g4dn.12xlarge", 48, 192, "T4", 4, 3.912, 0.36},
		{"g5.xlarge", 4, 16, "A10", 1, 1.006, 0.41}, {"g5.2xlarge", 8, 32, "A10", 1, 1.212, 0.42}, {"g5.4xlarge", 16, 64, "A10", 1, 1.624, 0.4}, {"g5.8xlarge", 32, 128, "A10", 1, 2.448, 0.41}, {"g5.12xlarge", 48, 192, "A10", 4, 5.672, 0.42}, {"g5.48xlarge", 192, 768, "A10", 8, 16.288, 0.29},
		{"g6.xlarge", 4, 16, "L4", 1, 0.8048, 0.51}, {"g6.2xlarge", 8, 32, "L4", 1, 0.9776, 0.42}, {"g6.4xlarge", 16, 64, "L4", 1, 1.3232, 0.43}, {"g6.12xlarge", 48, 192, "L4", 4, 4.6016, 0.41}, {"g6.48xlarge", 192, 768, "L4", 8, 13.3504, 0.31},
		{"p4d.24xlarge", 96, 1152, "A100-40", 8, 21.957642, 0.33},
	} {
		for i, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
			o := offer{name: x.name, cloud: "aws", region: "us-east-1", zone: zone, way: "on-demand", gpu: x.gpu, price: x.price, gpus: x.gpus, pods: 110,
				vcpu: x.vcpu, cpu: x.vcpu*1000 - kwokCPU, mem: x.gib*1024*92/100 - 600}
			out = append(out, o)
			o.way, o.price = "spot", math.Round(x.price*x.spot*(1+0.04*float64(i))*1e6)/1e6
			out = append(out, o)
		}
	}
	return out
}

// mix is the GPU mix: n recorded pods, or as many of our own of the same kinds.
func mix(t *testing.T, n int) []replica {
	t.Helper()
	var out []replica
	if dir := packingData(); dir != "" {
		for i, m := range table(t, filepath.Join(dir, "pods_spec33_500.csv")) {
			if i == n {
				break
			}
			r := replica{name: m["name"], cpu: number(t, m["cpu_milli"]), mem: number(t, m["mem_mib"]), gpus: number(t, m["gpu_count"]), spot: m["spot_ok"] == "1"}
			if m["gpu_models"] != "" {
				r.models = strings.Split(m["gpu_models"], "|")
			}
			out = append(out, r)
		}
		return out
	}
	kinds := []replica{
		{cpu: 3500, mem: 12000, gpus: 1, models: []string{"T4"}}, {cpu: 3500, mem: 12000, gpus: 1, models: []string{"A10"}}, {cpu: 3500, mem: 12000, gpus: 1}, {cpu: 7500, mem: 28000, gpus: 1},
		{cpu: 11900, mem: 47000, gpus: 1, spot: true}, {cpu: 15200, mem: 57000, gpus: 1, models: []string{"A10", "T4"}}, {cpu: 3000, mem: 9000, gpus: 1, spot: true}, {cpu: 6000, mem: 20000, gpus: 1, models: []string{"T4"}, spot: true},
		{cpu: 24000, mem: 90000, gpus: 4}, {cpu: 90000, mem: 600000, gpus: 8, models: []string{"A100-40"}}, {cpu: 1500, mem: 3000, spot: true}, {cpu: 4000, mem: 16000}, {cpu: 12500, mem: 57000}, {cpu: 2000, mem: 6000, spot: true},
	}
	shares := []int{10, 8, 16, 12, 9, 6, 12, 8, 2, 1, 5, 4, 3, 4}
	for len(out) < n {
		for k, share := range shares {
			for range share {
				if len(out) < n {
					r := kinds[k]
					r.name = fmt.Sprintf("p%04d", len(out))
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// writeInstanceTypes writes the catalogue as KWOK reads it. What pods can use
// of a machine is what the catalogue says.
func writeInstanceTypes(t *testing.T, file string, offers []offer) {
	t.Helper()
	type req struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values,omitempty"`
	}
	type offering struct {
		Price               float64
		Available           bool
		ReservationCapacity int64
		Requirements        []req
	}
	type kind struct {
		Name         string            `json:"name"`
		Offerings    []offering        `json:"offerings"`
		Architecture string            `json:"architecture"`
		Systems      []string          `json:"operatingSystems"`
		Resources    map[string]string `json:"resources"`
	}
	var out []*kind
	for _, o := range offers {
		at := slices.IndexFunc(out, func(k *kind) bool { return k.Name == o.name })
		if at < 0 {
			k := &kind{Name: o.name, Architecture: "amd64", Systems: []string{"linux"}, Resources: map[string]string{
				"cpu": fmt.Sprint(o.vcpu), "memory": fmt.Sprintf("%dMi", o.mem+kwokMem), "pods": fmt.Sprint(o.pods), "ephemeral-storage": "200Gi"}}
			if o.gpus > 0 {
				k.Resources["nvidia.com/gpu"] = fmt.Sprint(o.gpus)
			}
			at, out = len(out), append(out, k)
		}
		in := func(key, value string) req {
			if value == "" {
				return req{Key: key, Operator: "DoesNotExist"}
			}
			return req{Key: key, Operator: "In", Values: []string{value}}
		}
		out[at].Offerings = append(out[at].Offerings, offering{Price: o.price, Available: true, ReservationCapacity: o.count, Requirements: []req{
			in("karpenter.sh/capacity-type", o.way), in("topology.kubernetes.io/zone", o.zone), in(gpuNameLabel, o.gpu), in(reservationLabel, o.reservation)}})
	}
	b, err := json.Marshal(out)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeCatalogue writes it as the planner reads it.
func writeCatalogue(t *testing.T, file string, offers []offer) {
	t.Helper()
	var b strings.Builder
	b.WriteString("instance_type,cloud,region,zone,capacity_type,price_per_hour,gpu_model,gpu_count,arch,alloc_cpu_milli,alloc_mem_mib,max_pods,vcpu,reservation_id,reservation_count\n")
	for _, o := range offers {
		count := ""
		if o.count > 0 {
			count = fmt.Sprint(o.count)
		}
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%s,%s,%d,amd64,%d,%d,%d,%d,%s,%s\n", o.name, o.cloud, o.region, o.zone, o.way, strconv.FormatFloat(o.price, 'f', -1, 64), o.gpu, o.gpus, o.cpu, o.mem, o.pods, o.vcpu, o.reservation, count)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
