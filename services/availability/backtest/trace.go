package backtest

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of a trace file.
const (
	maxRows  = 2_000_000
	maxLooks = 20_000_000
	maxBad   = 1000
)

// BadRow is a row that was left out. Row 1 is the header.
type BadRow struct {
	Row    int    `json:"row"`
	Reason string `json:"reason"`
}

// Trace holds series of looks at offerings, by campaign in the order of time.
type Trace struct {
	campaigns []campaign
	Rows      int      // read, without the header
	Bad       []BadRow // the first thousand
	BadCount  int
}

type campaign struct {
	name   string
	start  time.Time
	series []*series
}

// series is one offering looked at every gap. A negative value is a moment nobody looked.
type series struct {
	offering fleet.Offering
	probe    bool // probes of capacity; else running machines
	target   int  // how many machines were wanted
	start    time.Time
	gap      time.Duration
	values   []int32
}

var header = []string{"kind", "nodes", "cloud", "campaign_start", "zone", "device", "gap_seconds", "offset_seconds", "duration_seconds", "value"}

// ReadTrace reads run-length encoded looks: kind (availability or preemption), nodes, cloud, campaign_start (a day), zone, device,
// gap_seconds, offset_seconds, duration_seconds, value. Rows that make no sense are left out and named; a file that is no such table
// is an error.
func ReadTrace(r io.Reader) (*Trace, error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil || !slices.Equal(head, header) {
		return nil, fleet.Errorf(fleet.CodeInvalid, "not a table of availability: the first line must be %s", strings.Join(header, ","))
	}
	t := &Trace{}
	b := builder{trace: t, series: map[string]*series{}, campaigns: map[string]int{}}
	for n := 2; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if n > maxRows {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "the trace has more than %d rows", maxRows)
		}
		var syntax *csv.ParseError
		switch {
		case errors.As(err, &syntax):
			t.bad(n, syntax.Err.Error())
			continue
		case err != nil:
			return nil, fmt.Errorf("read trace: %w", err)
		}
		t.Rows++
		if err := b.row(row); err != nil {
			var coded *fleet.Error
			if errors.As(err, &coded) && coded.Code == fleet.CodeTooLarge {
				return nil, err
			}
			t.bad(n, err.Error())
		}
	}
	if len(t.campaigns) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the trace has no usable row")
	}
	slices.SortStableFunc(t.campaigns, func(a, b campaign) int {
		if c := a.start.Compare(b.start); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return t, nil
}

func (t *Trace) bad(row int, reason string) {
	t.BadCount++
	if len(t.Bad) < maxBad {
		t.Bad = append(t.Bad, BadRow{row, reason})
	}
}

// Start and end of the first campaign: what fitting on "the first days" can mean.
func (t *Trace) firstCampaign() (from, to time.Time) {
	c := t.campaigns[0]
	for _, s := range c.series {
		if end := s.start.Add(time.Duration(len(s.values)) * s.gap); end.After(to) {
			to = end
		}
	}
	return c.start, to
}

// FirstHalf is the first half of the first campaign's time.
func (t *Trace) FirstHalf() fleet.Interval {
	from, to := t.firstCampaign()
	return fleet.Interval{From: from, To: from.Add(to.Sub(from) / 2)}
}

// Covers tells whether the trace has looks within the span.
func (t *Trace) Covers(span fleet.Interval) bool {
	for _, c := range t.campaigns {
		for _, s := range c.series {
			if s.start.Before(span.To) && s.start.Add(time.Duration(len(s.values))*s.gap).After(span.From) {
				return true
			}
		}
	}
	return false
}

type builder struct {
	trace     *Trace
	series    map[string]*series
	campaigns map[string]int
	looks     int
}

func (b *builder) row(f []string) error {
	if len(f) != len(header) {
		return fmt.Errorf("%d fields, want %d", len(f), len(header))
	}
	if f[0] != "availability" && f[0] != "preemption" {
		return fmt.Errorf("unknown kind %q", f[0])
	}
	day, err := time.Parse(time.DateOnly, f[3])
	if err != nil {
		return fmt.Errorf("campaign_start %q is not a day", f[3])
	}
	var n [4]int
	for i, name := range header[6:] {
		v, err := strconv.Atoi(f[6+i])
		if err != nil || v < 0 || v > 1<<31-1 {
			return fmt.Errorf("%s %q is not a count", name, f[6+i])
		}
		n[i] = v
	}
	gap, offset, duration, value := n[0], n[1], n[2], n[3]
	switch {
	case gap == 0 || gap > 3600:
		return fmt.Errorf("gap_seconds must be from 1 to 3600, not %d", gap)
	case duration == 0 || duration%gap != 0 || offset%gap != 0:
		return fmt.Errorf("offset and duration (%d, %d) must be multiples of gap_seconds (%d)", offset, duration, gap)
	case value > 100_000:
		return fmt.Errorf("value %d is too large", value)
	case f[2] == "" || f[4] == "" || f[5] == "":
		return errors.New("cloud, zone or device is empty")
	}
	key := strings.Join(f[:7], "|")
	s := b.series[key]
	k := 0
	if s != nil {
		k = len(s.values)
	}
	if offset/gap < k {
		return errors.New("overlaps the row before")
	}
	fresh := offset/gap + duration/gap - k
	if b.looks += fresh; b.looks > maxLooks {
		return fleet.Errorf(fleet.CodeTooLarge, "the trace has more than %d looks", maxLooks)
	}
	if s == nil {
		s = b.open(key, f, day, gap)
	}
	for range offset/gap - k {
		s.values = append(s.values, -1)
	}
	for range duration / gap {
		s.values = append(s.values, int32(value)) //nolint:gosec // a count of machines
	}
	return nil
}

func (b *builder) open(key string, f []string, day time.Time, gap int) *series {
	s := &series{offering: offeringOf(fleet.Cloud(f[2]), f[4], f[5]), probe: f[0] == "availability", target: wanted(f[1]), start: day, gap: time.Duration(gap) * time.Second}
	b.series[key] = s
	name := strings.Join([]string{f[3], f[0], f[1], f[2], f[5]}, " ")
	i, ok := b.campaigns[name]
	if !ok {
		i = len(b.trace.campaigns)
		b.campaigns[name] = i
		b.trace.campaigns = append(b.trace.campaigns, campaign{name: name, start: day})
	}
	b.trace.campaigns[i].series = append(b.trace.campaigns[i].series, s)
	return s
}

// wanted reads the fleet's size out of "16-node"; one where it says nothing.
func wanted(nodes string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(nodes, "-node"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// devices names the machine type behind a device, so that its band is found; others stay what they are called.
var devices = map[string]string{"v100_1": "p3.2xlarge", "v100_4": "p3.8xlarge", "v100_8": "p3.16xlarge", "k80_1": "p2.xlarge", "k80_8": "p2.8xlarge", "k80_16": "p2.16xlarge"}

func offeringOf(cloud fleet.Cloud, zone, device string) fleet.Offering {
	o := fleet.Offering{Cloud: cloud, Region: zone, Zone: zone, InstanceType: device, Purchase: fleet.PurchaseSpot}
	if name, ok := devices[device]; ok && cloud == fleet.CloudAWS {
		o.InstanceType = name
	}
	switch i := strings.LastIndexByte(zone, '-'); {
	case cloud == fleet.CloudAWS && len(zone) > 1:
		o.Region = strings.TrimRight(zone, "abcdefghijklmnopqrstuvwxyz")
		if o.Region == "" {
			o.Region = zone
		}
	case i > 0:
		o.Region = zone[:i]
	}
	return o
}

// there tells whether an attempt at look k gets a machine. A fleet below its size tries all the time: it is there when the fleet is
// complete or has just grown.
func (s *series) there(k int) bool {
	v := s.values[k]
	return v > 0 && (s.probe || int(v) >= s.target || k == 0 || v > s.values[k-1])
}

// ahead looks at the hour after look k: whether the offering is there at any look, and the least number of machines up to then.
func (s *series) ahead(k int) (found, least float64, ok bool) {
	n := int(horizon / s.gap)
	if n < 1 || k+n >= len(s.values) {
		return 0, 0, false
	}
	low := s.values[k]
	for i := k + 1; i <= k+n; i++ {
		if s.values[i] < 0 {
			return 0, 0, false
		}
		if s.there(i) {
			found = 1
		}
		low = min(low, s.values[i])
	}
	return found, float64(low), true
}

// behind looks at the hour up to look k: whether the offering was there at any look, and whether machines were at all.
func (s *series) behind(k int) (found, all float64) {
	all = 1
	for i := max(0, k-int(horizon/s.gap)); i <= k; i++ {
		if s.there(i) {
			found = 1
		}
		if s.values[i] <= 0 {
			all = 0
		}
	}
	return found, all
}
