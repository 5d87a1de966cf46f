package market

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Bounds of traits, far above what one machine has.
const (
	maxMbps        = 1_000_000_000
	maxGBps        = 1_000_000
	maxPods        = 10_000
	maxMIGProfiles = 50
	maxDoubts      = 1_000
)

// mig reads "profile:most profile:most" of a GPU model, or "none".
func (p *parser) mig(model fleet.GPUModel, text string) error {
	if _, twice := p.book.mig[model]; twice || model == "" {
		return fleet.Errorf(fleet.CodeInvalid, "profiles of %q are there twice, or of nothing", model)
	}
	profiles := []MIGProfile{}
	if text != "none" {
		for _, field := range strings.Fields(text) {
			name, most, ok := strings.Cut(field, ":")
			n, err := strconv.Atoi(most)
			if !ok || name == "" || err != nil || n < 1 || n > 7 || len(profiles) >= maxMIGProfiles {
				return fleet.Errorf(fleet.CodeInvalid, "%q is not a profile with its number", field)
			}
			profiles = append(profiles, MIGProfile{name, n})
		}
		if len(profiles) == 0 {
			return fleet.Errorf(fleet.CodeInvalid, "%s has no profiles and does not say so", model)
		}
	}
	slices.SortStableFunc(profiles, func(a, b MIGProfile) int { return cmp.Compare(b.Most, a.Most) })
	p.book.mig[model] = profiles
	return nil
}

// traits reads those of the type before the line.
func (p *parser) traits(f []string) error {
	if len(p.book.types) == 0 {
		return fleet.Errorf(fleet.CodeInvalid, "traits stand before their type")
	}
	var t Traits
	for _, one := range []struct {
		text  string
		least int64
		most  int64
		into  **int64
	}{{f[0], 1, maxMbps, &t.NetworkMbps}, {f[1], 0, maxMiB, &t.LocalDiskGiB}, {f[3], 1, maxGBps, &t.LinkGBps}, {f[5], 1, maxMbps, &t.FabricGbps}, {f[6], 1, maxPods, &t.AddressPods}} {
		if one.text == "-" {
			continue
		}
		n, err := strconv.ParseInt(one.text, 10, 64)
		if err != nil || n < one.least || n > one.most {
			return fleet.Errorf(fleet.CodeInvalid, "%q is not a trait from %d to %d", one.text, one.least, one.most)
		}
		*one.into = &n
	}
	if f[2] != "-" {
		t.Link = Link(f[2])
	}
	if f[4] != "-" {
		t.Fabric = Fabric(f[4])
	}
	switch t.Link {
	case "", LinkNone, LinkPCIe, LinkNVLink, LinkNVSwitch, LinkInfinityFabric:
	default:
		return fleet.Errorf(fleet.CodeInvalid, "unknown link %q", t.Link)
	}
	switch t.Fabric {
	case "", FabricNone, FabricEFA, FabricInfiniBand, FabricGPUDirect:
	default:
		return fleet.Errorf(fleet.CodeInvalid, "unknown fabric %q", t.Fabric)
	}
	p.book.types[len(p.book.types)-1].traits = t
	return nil
}

// offered reads the regions that sell the type before the line at a price that is not known.
func (p *parser) offered(text string) error {
	for _, number := range strings.Split(text, ",") {
		t, region, err := p.region(number)
		if err != nil {
			return err
		}
		t.prices = append(t.prices, regionPrice{region: region})
	}
	return nil
}

// doubt reads a price in quarantine of the type before the line.
func (p *parser) doubt(f []string) error {
	t, region, err := p.region(f[1])
	if err != nil {
		return err
	}
	hour, err := money(f[3])
	if err != nil {
		return err
	}
	expected, err := money(f[4])
	if err != nil {
		return err
	}
	d := Doubt{Region: region, Purchase: fleet.Purchase(f[2]), Reason: f[5]}
	if hour == nil || expected == nil || d.Purchase != fleet.PurchaseOnDemand && d.Purchase != fleet.PurchaseSpot || len(t.doubts) >= maxDoubts {
		return fleet.Errorf(fleet.CodeInvalid, "a price in quarantine of %s lacks its figures", t.Name)
	}
	d.Hour, d.Expected = *hour, *expected
	t.doubts = append(t.doubts, d)
	return nil
}
