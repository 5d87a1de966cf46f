package collect

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	maxTextBytes = 16 << 20 // of one scrape
	maxTextLine  = 1 << 20
)

// fetchText gets a page of Prometheus text, bounded.
func fetchText(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxTextBytes+1))
	if err == nil && len(b) > maxTextBytes {
		err = fmt.Errorf("%s answered more than %d bytes", url, maxTextBytes)
	}
	return b, err
}

// parseText reads the families that wanted says, and no others: what else a page holds, however odd, cannot spoil it.
func parseText(text []byte, wanted func(family string) bool) (map[string]*dto.MetricFamily, error) {
	var kept bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(make([]byte, 0, 64<<10), maxTextLine)
	for lines.Scan() {
		if name := lineFamily(lines.Text()); name != "" && (wanted(name) || wanted(histogramFamily(name))) {
			kept.Write(lines.Bytes())
			kept.WriteByte('\n')
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return families, nil
}

// lineFamily is the name that a line is about: of a sample, or of a TYPE comment; HELP is not needed.
func lineFamily(line string) string {
	line = strings.TrimLeft(line, " \t")
	if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	if line == "" || line[0] == '#' {
		return ""
	}
	if i := strings.IndexAny(line, "{ \t"); i > 0 {
		return line[:i]
	}
	return ""
}

func histogramFamily(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return base
		}
	}
	return name
}

// sumFamily adds up the samples of a gauge, counter or untyped family; false when there is none.
func sumFamily(f *dto.MetricFamily) (float64, bool) {
	var sum float64
	for _, m := range f.GetMetric() {
		v, ok := sample(m)
		if !ok {
			return 0, false
		}
		sum += v
	}
	return sum, len(f.GetMetric()) > 0 && !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

func sample(m *dto.Metric) (float64, bool) {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue(), true
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue(), true
	case m.GetUntyped() != nil:
		return m.GetUntyped().GetValue(), true
	}
	return 0, false
}

// buckets are cumulative counts by upper bound.
type buckets map[float64]float64

// sumHistogram adds up the histograms of a family over its label sets.
func sumHistogram(f *dto.MetricFamily) (buckets, bool) {
	out := buckets{}
	for _, m := range f.GetMetric() {
		h := m.GetHistogram()
		if h == nil {
			return nil, false
		}
		for _, b := range h.GetBucket() {
			out[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
		if !hasInf(h) {
			out[math.Inf(1)] += float64(h.GetSampleCount())
		}
	}
	return out, len(out) > 0
}

func hasInf(h *dto.Histogram) bool {
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			return true
		}
	}
	return false
}

// minus is what came in between two readings; when a count went back the server restarted and all of now is new.
func (b buckets) minus(before buckets) buckets {
	out := make(buckets, len(b))
	for le, n := range b {
		d := n - before[le]
		if d < 0 {
			return b
		}
		out[le] = d
	}
	return out
}

func (b buckets) add(o buckets) {
	for le, n := range o {
		b[le] += n
	}
}

// total is how many observations there are.
func (b buckets) total() float64 { return b[math.Inf(1)] }

// quantile interpolates within the bucket that holds rank q; in the last, open bucket it is that bucket's lower bound. False
// when nothing was observed.
func (b buckets) quantile(q float64) (float64, bool) {
	bounds := make([]float64, 0, len(b))
	for le := range b {
		bounds = append(bounds, le)
	}
	sort.Float64s(bounds)
	if len(bounds) == 0 || b.total() <= 0 {
		return 0, false
	}
	rank, lower, below := q*b.total(), 0.0, 0.0
	for _, le := range bounds {
		n := b[le]
		if n >= rank && n > below {
			if math.IsInf(le, 1) {
				return lower, true
			}
			return lower + (le-lower)*(rank-below)/(n-below), true
		}
		lower, below = le, max(below, n)
	}
	return lower, true
}
