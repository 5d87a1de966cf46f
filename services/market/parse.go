package market

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Bounds of a catalogue, far above what one holds.
const (
	maxCatalogueBytes = 32 << 20
	maxTypes          = 100_000
	maxPricesPerType  = 1_000
	maxMilli          = 10_000_000    // 10,000 vCPU
	maxMiB            = 1 << 30       // a PiB
	maxHourlyNano     = 100_000 * 1e9 // dollars an hour of one machine
	maxGPUs           = 1_000
)

// Parse reads a catalogue in the format that catalog/README.md describes. Anything it does not understand is an error with the line.
func Parse(text []byte) (*PriceBook, error) {
	if len(text) > maxCatalogueBytes {
		return nil, fleet.Errorf(fleet.CodeTooLarge, "catalogue is larger than %d bytes", maxCatalogueBytes)
	}
	p := parser{book: &PriceBook{index: map[typeKey]int{}, weights: map[fleet.Cloud]Weights{}, mig: map[fleet.GPUModel][]MIGProfile{}}}
	for n, line := range strings.Split(strings.TrimSuffix(string(bytes.TrimSpace(text)), "\n"), "\n") {
		if err := p.line(n, strings.Split(line, "\t")); err != nil {
			return nil, fmt.Errorf("catalogue line %d: %w", n+1, err)
		}
	}
	return p.done()
}

type parser struct {
	book    *PriceBook
	regions []regionKey
}

type regionKey struct {
	cloud  fleet.Cloud
	region string
}

func (p *parser) line(n int, f []string) error {
	if n == 0 {
		if len(f) != 3 || f[0] != "plimsoll-catalogue" || f[1] != "2" || len(f[2]) != 3 {
			return fleet.Errorf(fleet.CodeInvalid, "not a catalogue of format 2")
		}
		p.book.currency = f[2]
		return nil
	}
	switch {
	case f[0] == "S" && len(f) == 7:
		return p.source(f)
	case f[0] == "R" && len(f) == 3:
		p.regions = append(p.regions, regionKey{fleet.Cloud(f[1]), f[2]})
		return nil
	case f[0] == "W" && len(f) == 4:
		return p.weight(fleet.Cloud(f[1]), f[2], f[3])
	case f[0] == "T" && (len(f) == 6 || len(f) == 9):
		return p.instanceType(f)
	case f[0] == "P" && len(f) == 4:
		return p.price(f)
	case f[0] == "M" && len(f) == 3:
		return p.mig(fleet.GPUModel(f[1]), f[2])
	case f[0] == "N" && len(f) == 8:
		return p.traits(f[1:])
	case f[0] == "O" && len(f) == 2:
		return p.offered(f[1])
	case f[0] == "Q" && len(f) == 6:
		return p.doubt(f)
	}
	return fleet.Errorf(fleet.CodeInvalid, "unknown line %q with %d fields", f[0], len(f))
}

func (p *parser) source(f []string) error {
	if _, err := time.Parse(time.DateOnly, f[4]); err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "date %q", f[4])
	}
	p.book.sources = append(p.book.sources, Source{Cloud: fleet.Cloud(f[1]), Kind: f[2], Name: f[3], Date: f[4], Licence: f[5], Origin: f[6]})
	if f[2] == string(fleet.PurchaseOnDemand) && f[4] > p.book.version {
		p.book.version = f[4]
	}
	return nil
}

func (p *parser) weight(cloud fleet.Cloud, what, text string) error {
	m, err := money(text)
	if err != nil {
		return err
	}
	var v fleet.Money
	if m != nil {
		v = *m
	}
	w := p.book.weights[cloud]
	switch what {
	case "cpu":
		w.CPUHour = v
	case "gib":
		w.GiBHour = v
	default:
		if w.GPUHour == nil {
			w.GPUHour = map[fleet.GPUModel]fleet.Money{}
		}
		w.GPUHour[fleet.GPUModel(what)] = v
	}
	p.book.weights[cloud] = w
	return nil
}

func (p *parser) instanceType(f []string) error {
	t := listed{InstanceType: fleet.InstanceType{Cloud: fleet.Cloud(f[1]), Name: f[2], Arch: f[3]}}
	var err error
	if t.CPUMilli, err = count(f[4], maxMilli); err != nil {
		return err
	}
	if t.MemMiB, err = count(f[5], maxMiB); err != nil {
		return err
	}
	if len(f) == 9 {
		t.GPUModel = fleet.GPUModel(f[6])
		n, err := count(f[7], maxGPUs)
		if err != nil {
			return err
		}
		t.GPUCount = int(n)
		if t.GPUMemoryMiB, err = count(f[8], maxMiB); err != nil {
			return err
		}
	}
	key := typeKey{t.Cloud, t.Name}
	if _, twice := p.book.index[key]; twice || len(p.book.types) >= maxTypes {
		return fleet.Errorf(fleet.CodeInvalid, "type %s is there twice, or there are too many", t.Name)
	}
	p.book.index[key] = len(p.book.types)
	p.book.types = append(p.book.types, t)
	return nil
}

// region finds the region of a line that belongs to the type before it.
func (p *parser) region(text string) (*listed, string, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(p.regions) || len(p.book.types) == 0 {
		return nil, "", fleet.Errorf(fleet.CodeInvalid, "price of region %q stands before its region or type", text)
	}
	t := &p.book.types[len(p.book.types)-1]
	if p.regions[i].cloud != t.Cloud || len(t.prices) >= maxPricesPerType {
		return nil, "", fleet.Errorf(fleet.CodeInvalid, "price of %s in a region of %s", t.Name, p.regions[i].cloud)
	}
	return t, p.regions[i].region, nil
}

func (p *parser) price(f []string) error {
	t, region, err := p.region(f[1])
	if err != nil {
		return err
	}
	r := regionPrice{region: region}
	if r.onDemand, err = money(f[2]); err != nil {
		return err
	}
	if r.spot, err = money(f[3]); err != nil {
		return err
	}
	t.prices = append(t.prices, r)
	return nil
}

func (p *parser) done() (*PriceBook, error) {
	b := p.book
	if b.version == "" || len(b.types) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "catalogue without types or without a dated source of prices")
	}
	for cloud, w := range b.weights {
		w.Version = string(cloud) + " " + b.version
		b.weights[cloud] = w
	}
	sorted := sort.SliceIsSorted(b.types, func(i, j int) bool {
		if b.types[i].Cloud != b.types[j].Cloud {
			return b.types[i].Cloud < b.types[j].Cloud
		}
		return b.types[i].Name < b.types[j].Name
	})
	if !sorted {
		return nil, fleet.Errorf(fleet.CodeInvalid, "catalogue types are not sorted by cloud and name")
	}
	for i := range b.types {
		all := b.types[i].prices
		slices.SortFunc(all, func(x, y regionPrice) int { return cmp.Compare(x.region, y.region) })
		for j := 1; j < len(all); j++ {
			if all[j].region == all[j-1].region {
				return nil, fleet.Errorf(fleet.CodeInvalid, "%s has two prices in %s", b.types[i].Name, all[j].region)
			}
		}
	}
	return b, nil
}

// money reads a price; "-" is nil, unknown. Zero and negative prices are errors.
func money(s string) (*fleet.Money, error) {
	if s == "-" {
		return nil, nil //nolint:nilnil // an unknown price is a value of its own here
	}
	m, err := fleet.ParseMoney(s)
	if err != nil {
		return nil, err
	}
	if m <= 0 || m > maxHourlyNano {
		return nil, fleet.Errorf(fleet.CodeInvalid, "price %q is not above zero and below the bound", s)
	}
	return &m, nil
}

func count(s string, limit int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > limit {
		return 0, fleet.Errorf(fleet.CodeInvalid, "%q is not a count from 1 to %d", s, limit)
	}
	return n, nil
}
