package collect

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"
)

// DCGMExporter reads GPUs from the text of one or more dcgm-exporters.
type DCGMExporter struct {
	urls   []string
	client *http.Client
}

// NewDCGMExporter makes the source.
func NewDCGMExporter(urls []string) *DCGMExporter {
	return &DCGMExporter{urls: urls, client: &http.Client{Timeout: scrapeTimeout}}
}

// Name implements Source.
func (d *DCGMExporter) Name() string { return "dcgm_exporter" }

// Collect implements Source. Exporters that do not answer leave their GPUs out; only when none answers is it an error.
func (d *DCGMExporter) Collect(ctx context.Context, in Input) (Batch, error) {
	readings, errs := make([][]gpuReading, len(d.urls)), make([]error, len(d.urls))
	slots := make(chan struct{}, scrapeAtOnce)
	var wg sync.WaitGroup
	for i, url := range d.urls {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			text, err := fetchText(ctx, d.client, url)
			if err == nil {
				readings[i], err = parseDCGM(text)
			}
			errs[i] = err
		}()
	}
	wg.Wait()
	var all []gpuReading
	failed, first := 0, error(nil)
	for i := range d.urls {
		all = append(all, readings[i]...)
		if errs[i] != nil {
			failed++
			if first == nil {
				first = errs[i]
			}
		}
	}
	if failed == len(d.urls) && failed > 0 {
		return Batch{}, fmt.Errorf("no dcgm-exporter answered: %w", first)
	}
	return gpuBatch(all, in), nil
}

// parseDCGM reads the exporter's text into one reading per GPU or MIG instance, sorted by entity.
func parseDCGM(text []byte) ([]gpuReading, error) {
	families, err := parseText(text, func(f string) bool { return strings.HasPrefix(f, "DCGM_FI_") })
	if err != nil {
		return nil, err
	}
	by := map[string]*gpuReading{}
	for _, name := range sortedKeys(families) {
		for _, m := range families[name].GetMetric() {
			takeDCGM(by, name, families[name].GetType() == dto.MetricType_COUNTER, m)
		}
	}
	out := make([]gpuReading, 0, len(by))
	for _, k := range sortedKeys(by) {
		out = append(out, *by[k])
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Entity < out[j].Entity })
	return out, nil
}

// takeDCGM adds one sample. A GPU that several pods share (time slicing) is listed once per pod: they are told apart for the
// workloads, and the entity keeps the newest.
func takeDCGM(by map[string]*gpuReading, family string, counter bool, m *dto.Metric) {
	label := map[string]string{}
	for _, l := range m.GetLabel() {
		label[l.GetName()] = l.GetValue()
	}
	v, ok := sample(m)
	entity := label["UUID"]
	if !ok || entity == "" || isBlank(v, counter) {
		return
	}
	if gi := label["GPU_I_ID"]; gi != "" {
		entity += "/gi/" + gi
	}
	ns, pod := label["namespace"], label["pod"]
	if label["exported_pod"] != "" { // a Prometheus that scraped it put its own labels in place of these
		ns, pod = label["exported_namespace"], label["exported_pod"]
	}
	key := entity + "\x00" + ns + "/" + pod
	if by[key] == nil {
		by[key] = &gpuReading{Entity: entity, Profile: label["GPU_I_PROFILE"], Namespace: ns, Pod: pod, Fields: map[string]float64{}, Host: label["Hostname"], Driver: label["DCGM_FI_DRIVER_VERSION"]}
	}
	by[key].Fields[fieldName(family)] = v
}
