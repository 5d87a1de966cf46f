package commitment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Record is a commitment as people write it down: a row of CSV, an object of JSON. All fields are text; amounts are plain decimals.
type Record struct {
	Ref          string `json:"ref"`
	Kind         string `json:"kind"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instance_type,omitempty"`
	Family       string `json:"family,omitempty"`
	Resource     string `json:"resource,omitempty"`
	GPUModel     string `json:"gpu_model,omitempty"`
	Quantity     string `json:"quantity,omitempty"` // machines, vCPUs, GiB or GPUs
	Upfront      string `json:"upfront,omitempty"`
	Recurring    string `json:"recurring_hour,omitempty"` // of all of Quantity together
	Spend        string `json:"hourly_commitment,omitempty"`
	Discount     string `json:"discount_percent,omitempty"`
	Rates        string `json:"rates,omitempty"`  // "p5.48xlarge@us-east-1=40.1; m5.*=28%": price per hour, or percent off
	Ratios       string `json:"ratios,omitempty"` // "Standard_D2s_v3=1; Standard_D4s_v3=2"
	Flexible     string `json:"size_flexible,omitempty"`
	StartsAt     string `json:"starts_at"`
	EndsAt       string `json:"ends_at,omitempty"`
	Owner        string `json:"owner,omitempty"`
	Currency     string `json:"currency,omitempty"` // default and only: that of the catalogue
}

// fields by column name.
func (r *Record) fields() map[string]*string {
	return map[string]*string{"ref": &r.Ref, "kind": &r.Kind, "region": &r.Region, "zone": &r.Zone, "instance_type": &r.InstanceType, "family": &r.Family,
		"resource": &r.Resource, "gpu_model": &r.GPUModel, "quantity": &r.Quantity, "upfront": &r.Upfront, "recurring_hour": &r.Recurring,
		"hourly_commitment": &r.Spend, "discount_percent": &r.Discount, "rates": &r.Rates, "ratios": &r.Ratios, "size_flexible": &r.Flexible,
		"starts_at": &r.StartsAt, "ends_at": &r.EndsAt, "owner": &r.Owner, "currency": &r.Currency}
}

// Bounds of an import.
const (
	MaxImportBytes = 8 << 20
	MaxImportRows  = 10_000
	maxText        = 256
	maxListText    = 256 << 10
)

// Commitment reads the record; an error's Field is the column.
func (r Record) Commitment(currency string) (Commitment, error) {
	for column, text := range r.fields() {
		*text = strings.TrimSpace(*text)
		limit := maxText
		if column == "rates" || column == "ratios" {
			limit = maxListText
		}
		if len(*text) > limit || strings.ContainsFunc(*text, func(c rune) bool { return c < ' ' || c == 0xFFFD }) {
			return Commitment{}, invalid(column, "is longer than %d bytes or holds control characters", limit)
		}
	}
	c := Commitment{Ref: r.Ref, Kind: Kind(r.Kind), Region: r.Region, Zone: r.Zone, InstanceType: r.InstanceType, Family: r.Family, Resource: Resource(r.Resource),
		GPUModel: fleet.GPUModel(r.GPUModel), Owner: r.Owner}
	if r.Currency != "" && r.Currency != currency {
		return c, invalid("currency", "only %s is known here", currency)
	}
	if err := r.amounts(&c); err != nil {
		return c, err
	}
	var err error
	if c.Term.From, err = moment("starts_at", r.StartsAt); err != nil {
		return c, err
	}
	if c.Term.To, err = moment("ends_at", r.EndsAt); err != nil {
		return c, err
	}
	switch r.Flexible {
	case "":
	case "true", "false":
		yes := r.Flexible == "true"
		c.Flexible = &yes
	default:
		return c, invalid("size_flexible", "must be true or false")
	}
	if c.Rates, err = rates(r.Rates); err != nil {
		return c, err
	}
	if c.Ratios, err = ratios(r.Ratios); err != nil {
		return c, err
	}
	return c, c.Validate()
}

func (r Record) amounts(c *Commitment) error {
	for _, f := range []struct {
		column, text string
		into         *fleet.Money
	}{{"upfront", r.Upfront, &c.Upfront}, {"recurring_hour", r.Recurring, &c.Recurring}, {"hourly_commitment", r.Spend, &c.Spend}} {
		if f.text == "" {
			continue
		}
		m, err := fleet.ParseMoney(f.text)
		if err != nil {
			return invalid(f.column, "%q is not a plain decimal", f.text)
		}
		*f.into = m
	}
	if r.Upfront == "" && r.Recurring == "" && !c.Kind.Spend() && c.Kind != KindCapacity {
		return invalid("recurring_hour", "say what it costs: upfront or recurring_hour; 0 when paid elsewhere")
	}
	if r.Quantity != "" {
		scale := int64(1000)
		if c.Resource == ResourceMemory {
			scale = 1024
		}
		m, err := fleet.ParseMoney(r.Quantity)
		if err != nil || m < 0 || int64(m) > maxUnits*1_000_000 || int64(m)*scale%fleet.NanosPerUnit != 0 {
			return invalid("quantity", "%q is not a quantity in thousandths", r.Quantity)
		}
		c.Quantity = int64(m) * scale / fleet.NanosPerUnit
	}
	if r.Discount != "" {
		ppm, ok := percent(r.Discount)
		if !ok {
			return invalid("discount_percent", "%q is not a percentage with at most four places", r.Discount)
		}
		c.DiscountPPM = ppm
	}
	return nil
}

// percent reads "28" or "27.5" into millionths.
func percent(text string) (int64, bool) {
	m, err := fleet.ParseMoney(text)
	if err != nil || m < 0 || m > 100*fleet.NanosPerUnit || m%100_000 != 0 {
		return 0, false
	}
	return int64(m) / 100_000, true
}

func moment(column, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC().Truncate(time.Second)
			if t.Year() < 2000 || t.Year() > 2200 {
				return t, invalid(column, "must lie between 2000 and 2200")
			}
			return t, nil
		}
	}
	return time.Time{}, invalid(column, "%q is neither a date (2026-03-01) nor a time (2026-03-01T00:00:00Z)", text)
}

func rates(text string) ([]Rate, error) {
	var out []Rate
	for key, value := range pairs(text) {
		name, region, _ := strings.Cut(key, "@")
		r := Rate{InstanceType: name, Region: region}
		if family, ok := strings.CutSuffix(name, ".*"); ok {
			r.InstanceType, r.Family = "", family
		}
		ok := name != ""
		if p, isPercent := strings.CutSuffix(value, "%"); isPercent {
			r.DiscountPPM, ok = percent(p)
		} else if m, err := fleet.ParseMoney(value); err == nil {
			r.Hour = &m
		} else {
			ok = false
		}
		if !ok || len(out) == maxRates {
			return nil, invalid("rates", "cannot read %q; write type=price or family.*=percent%%, separated by semicolons", key+"="+value)
		}
		out = append(out, r)
	}
	return out, nil
}

func ratios(text string) ([]Ratio, error) {
	var out []Ratio
	for key, value := range pairs(text) {
		m, err := fleet.ParseMoney(value)
		if key == "" || err != nil || m <= 0 || m%1_000_000 != 0 || len(out) == maxRates || slices.ContainsFunc(out, func(r Ratio) bool { return r.InstanceType == key }) {
			return nil, invalid("ratios", "cannot read %q; write each type once as type=ratio, separated by semicolons", key+"="+value)
		}
		out = append(out, Ratio{InstanceType: key, Milli: int64(m) / 1_000_000})
	}
	return out, nil
}

// pairs of "key=value; key=value", in order.
func pairs(text string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for part := range strings.SplitSeq(text, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			key, value, _ := strings.Cut(part, "=")
			if !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// ReadCSV reads commitments from CSV whose first row names the columns, in any order. The first thing that cannot be read is an error
// that names row and column; nothing is returned then.
func ReadCSV(text []byte, currency string) ([]Commitment, error) {
	if len(text) > MaxImportBytes {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "an import has at most %d bytes", MaxImportBytes)
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	head, err := r.Read()
	if err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "the first row must name the columns")
	}
	known := (&Record{}).fields()
	seen := map[string]bool{}
	for i, name := range head {
		head[i] = strings.ToLower(strings.TrimSpace(name))
		if known[head[i]] == nil || seen[head[i]] {
			return nil, &fleet.Error{Code: fleet.CodeInvalid, Field: "row 1." + head[i], Message: fmt.Sprintf("row 1, column %d: %q is unknown or there twice", i+1, name)}
		}
		seen[head[i]] = true
	}
	var records []Record
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return readAll(records, currency, 2)
		}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return nil, fleet.Errorf(fleet.CodeInvalid, "row %d, column %d: %v", len(records)+2, parse.Column, parse.Err)
		}
		if err != nil || len(records) == MaxImportRows {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "an import has at most %d rows", MaxImportRows)
		}
		var rec Record
		fields := rec.fields()
		for i, v := range row {
			*fields[head[i]] = v
		}
		records = append(records, rec)
	}
}

// ReadJSON reads commitments from an array of records.
func ReadJSON(text []byte, currency string) ([]Commitment, error) {
	if len(text) > MaxImportBytes {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "an import has at most %d bytes", MaxImportBytes)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "an import is a JSON array of objects")
	}
	if len(rows) > MaxImportRows {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "an import has at most %d rows", MaxImportRows)
	}
	records := make([]Record, len(rows))
	for i, row := range rows {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(row, &values); err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "row %d: is no object", i+1)
		}
		fields := records[i].fields()
		for _, column := range sortedKeys(values) {
			into := fields[column]
			if into == nil {
				return nil, rowError(i+1, column, "is unknown")
			}
			if *into = string(values[column]); strings.HasPrefix(*into, `"`) {
				if err := json.Unmarshal(values[column], into); err != nil {
					return nil, rowError(i+1, column, "cannot be read")
				}
			} else if *into == "null" {
				*into = ""
			}
		}
	}
	return readAll(records, currency, 1)
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readAll reads the records; row is the number of the first.
func readAll(records []Record, currency string, row int) ([]Commitment, error) {
	out := make([]Commitment, 0, len(records))
	seen := map[string]int{}
	for i, r := range records {
		c, err := r.Commitment(currency)
		var coded *fleet.Error
		if errors.As(err, &coded) {
			return nil, rowError(row+i, coded.Field, coded.Message)
		}
		if err != nil {
			return nil, err
		}
		if first, ok := seen[c.Ref]; ok {
			return nil, rowError(row+i, "ref", fmt.Sprintf("%q is in row %d already", c.Ref, first))
		}
		seen[c.Ref] = row + i
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "there is no commitment in it")
	}
	return out, nil
}

func rowError(row int, column, message string) error {
	return &fleet.Error{Code: fleet.CodeInvalid, Field: fmt.Sprintf("row %d.%s", row, column), Message: fmt.Sprintf("row %d, column %s: %s", row, column, message)}
}
