package market

import (
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// SpotShape knows where the columns of a price file are. Files are told apart by their header:
//
//	timestamp or date, cloud, region, instance_type or instance_size, spot_price   must be there
//	zone, product_description, ondemand_price, currency                            may be
//	accelerator, accelerator_count                                                 price the accelerator alone, where a row has no instance type
//
// An empty spot_price means no Spot there; with an empty on-demand price too, the pool is gone. Other columns are not read.
type SpotShape struct {
	width                                               int
	at, cloud, region, zone, machine, product           int
	spot, onDemand, currency, accelerator, accelerators int
	days                                                bool // the time column holds dates
	lastText                                            string
	lastAt                                              int64
}

// SpotRow is one row of a price file. Reason says that its figures are no possible prices; the texts then hold what it said.
type SpotRow struct {
	Pool         SpotPool
	Change       SpotChange
	Reason       SuspectReason
	SpotText     string
	OnDemandText string
}

// NewSpotShape reads a header.
func NewSpotShape(header []string) (*SpotShape, error) {
	s := &SpotShape{width: len(header)}
	column := func(names ...string) int {
		for i, h := range header {
			for _, n := range names {
				if strings.TrimPrefix(strings.ToLower(strings.TrimSpace(h)), "\ufeff") == n {
					return i
				}
			}
		}
		return -1
	}
	s.at, s.cloud, s.region = column("timestamp", "date"), column("cloud"), column("region")
	s.machine, s.spot = column("instance_type", "instance_size"), column("spot_price")
	s.zone, s.product, s.onDemand = column("zone"), column("product_description"), column("ondemand_price")
	s.currency, s.accelerator, s.accelerators = column("currency"), column("accelerator"), column("accelerator_count")
	for _, must := range []struct {
		column int
		name   string
	}{{s.at, "timestamp (or date)"}, {s.cloud, "cloud"}, {s.region, "region"}, {s.machine, "instance_type (or instance_size)"}, {s.spot, "spot_price"}} {
		if must.column < 0 {
			return nil, fleet.Errorf(fleet.CodeInvalid, "no history of Spot prices per machine: the header has no column %s", must.name)
		}
	}
	s.days = strings.EqualFold(strings.TrimSpace(header[s.at]), "date")
	return s, nil
}

const maxNameBytes = 128

// Row reads one record. An error means that the row is malformed; a row whose numbers are no possible prices has a Reason instead.
func (s *SpotShape) Row(record []string) (SpotRow, error) {
	var r SpotRow
	if len(record) != s.width {
		return r, fleet.Errorf(fleet.CodeInvalid, "%d fields instead of %d", len(record), s.width)
	}
	at, err := s.time(record[s.at])
	if err != nil {
		return r, err
	}
	r.Change.At = at
	if r.Pool, err = s.pool(record); err != nil {
		return r, err
	}
	if r.Change.Spot, r.Reason, err = ReadPrice(record[s.spot]); err != nil {
		return r, err
	}
	if list := s.field(record, s.onDemand); list != "" {
		var reason SuspectReason
		if r.Change.OnDemand, reason, err = ReadPrice(list); err != nil {
			return r, err
		}
		if r.Reason == "" {
			r.Reason = reason
		}
	}
	if currency := s.field(record, s.currency); r.Reason == "" && currency != "" && currency != "USD" {
		r.Reason = SuspectCurrency
	}
	if r.Reason != "" {
		r.SpotText, r.OnDemandText = strings.Clone(record[s.spot]), strings.Clone(s.field(record, s.onDemand))
	}
	return r, nil
}

func (s *SpotShape) field(record []string, column int) string {
	if column < 0 {
		return ""
	}
	return record[column]
}

// Files are written pool by pool or moment by moment: in either case a time often stands in the row before, too.
func (s *SpotShape) time(text string) (int64, error) {
	if text == s.lastText && text != "" {
		return s.lastAt, nil
	}
	layout := time.RFC3339
	if s.days {
		layout = time.DateOnly
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return 0, fleet.Errorf(fleet.CodeInvalid, "%.40q is not a time such as %s", text, layout)
	}
	if t.Year() < 2006 { // before there was a cloud
		return 0, fleet.Errorf(fleet.CodeInvalid, "%.40q is before any cloud sold machines", text)
	}
	s.lastText, s.lastAt = strings.Clone(text), t.Unix()
	return s.lastAt, nil
}

func (s *SpotShape) pool(record []string) (SpotPool, error) {
	p := SpotPool{Cloud: fleet.Cloud(record[s.cloud]), Region: record[s.region], Zone: s.field(record, s.zone),
		InstanceType: record[s.machine], Product: s.field(record, s.product)}
	if p.Product == "" {
		p.Product = ProductLinux
	}
	if model := s.field(record, s.accelerator); p.InstanceType == "" && model != "" {
		count, err := strconv.ParseFloat(s.field(record, s.accelerators), 64)
		if err != nil || count < 1 || count > maxGPUs || count != float64(int(count)) {
			return p, fleet.Errorf(fleet.CodeInvalid, "%.40q is not a count of accelerators", s.field(record, s.accelerators))
		}
		p.InstanceType, p.Product = model+" x"+strconv.Itoa(int(count)), ProductAccelerator
	}
	switch p.Cloud {
	case fleet.CloudAWS, fleet.CloudGCP:
	case fleet.CloudAzure:
		p.Region, p.InstanceType = azureRegion(p.Region), azureSize(p.InstanceType)
	default:
		return p, fleet.Errorf(fleet.CodeInvalid, "cloud %.40q is none of aws, azure and gcp", record[s.cloud])
	}
	if p.Region == "" || p.InstanceType == "" {
		return p, fleet.Errorf(fleet.CodeInvalid, "no region or no instance type")
	}
	for _, name := range []string{p.Region, p.Zone, p.InstanceType, p.Product} {
		if len(name) > maxNameBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
			return p, fleet.Errorf(fleet.CodeInvalid, "%.40q is not a name", name)
		}
	}
	return p, nil
}

// azureRegion turns "us_north_central" into "northcentralus", as Azure spells it.
func azureRegion(s string) string {
	first, rest, ok := strings.Cut(s, "_")
	if !ok {
		return s
	}
	return strings.ReplaceAll(rest, "_", "") + first
}

// azureSize turns "NC6s v3" into "Standard_NC6s_v3".
func azureSize(s string) string {
	if s == "" || strings.HasPrefix(s, "Standard_") || strings.HasPrefix(s, "Basic_") {
		return s
	}
	return "Standard_" + strings.ReplaceAll(s, " ", "_")
}
