// Package market knows what machines there are and what they cost: the dated catalogue that ships inside the binary, look-ups
// and search in it, the weights that split a machine's price over its resources, and the price of one replica. It is pure, and
// an unknown price stays unknown: it never becomes zero and never the price of something else.
package market

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed" // the catalogue
	"io"
	"slices"
	"sync"
	"time"

	"plimsoll.dev/services/fleet"
)

//go:embed catalog/catalogue.tsv.gz
var packed []byte

// Catalogue returns the price book inside the binary. It is parsed once; the book is immutable and safe to share.
var Catalogue = sync.OnceValue(func() *PriceBook {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("market: the embedded catalogue is not gzip: " + err.Error())
	}
	text, err := io.ReadAll(io.LimitReader(z, maxCatalogueBytes+1))
	if err != nil {
		panic("market: the embedded catalogue is broken: " + err.Error())
	}
	book, err := Parse(text)
	if err != nil {
		panic("market: the embedded catalogue is broken: " + err.Error())
	}
	return book
})

// Source says where the figures of one cloud and kind come from.
type Source struct {
	Cloud   fleet.Cloud
	Kind    string // on_demand and spot: prices; types, traits, network, pods: machines; offered: where they are sold
	Name    string
	Date    string // YYYY-MM-DD
	Licence string
	Origin  string
}

// PriceBook holds instance types and their list prices per region, as of the dates of its sources.
type PriceBook struct {
	currency string
	sources  []Source
	types    []listed // sorted by cloud and name
	index    map[typeKey]int
	weights  map[fleet.Cloud]Weights
	mig      map[fleet.GPUModel][]MIGProfile // by most at once; empty: cannot be split
	version  string
	fresh    map[freshKey][]ListPrice // by time; what clouds said since: see With
	at       time.Time                // the moment to speak of; zero: the present
}

type typeKey struct {
	cloud fleet.Cloud
	name  string
}

type listed struct {
	fleet.InstanceType
	traits Traits
	prices []regionPrice // sorted by region; where it is sold at a price that is not known, both are nil
	doubts []Doubt       // sorted by region; none of them in prices
}

type regionPrice struct {
	region         string
	onDemand, spot *fleet.Money
}

// Date is the snapshot's: the newest date of its on-demand sources, YYYY-MM-DD.
func (b *PriceBook) Date() string { return b.version }

// Currency of all prices, ISO 4217.
func (b *PriceBook) Currency() string { return b.currency }

// Sources lists where the figures come from, in the file's order.
func (b *PriceBook) Sources() []Source { return append([]Source(nil), b.sources...) }

// InstanceType finds a type by its cloud and name.
func (b *PriceBook) InstanceType(cloud fleet.Cloud, name string) (fleet.InstanceType, bool) {
	i, ok := b.index[typeKey{cloud, name}]
	if !ok {
		return fleet.InstanceType{}, false
	}
	return b.types[i].InstanceType, true
}

// Price gives what one machine-hour of an offering costs. List is the on-demand price; Effective is what the purchase option
// costs without any contract, so it stays nil for reserved machines, whose price only their contract knows. What the
// catalogue does not know is nil.
func (b *PriceBook) Price(o fleet.Offering) fleet.Price {
	p := fleet.Price{Offering: o, Currency: b.currency}
	i, ok := b.index[typeKey{o.Cloud, o.InstanceType}]
	if !ok {
		return p
	}
	prices := b.types[i].prices
	if at, listed := slices.BinarySearchFunc(prices, o.Region, func(r regionPrice, region string) int { return cmp.Compare(r.region, region) }); listed {
		p.List = clone(prices[at].onDemand)
		switch o.Purchase {
		case fleet.PurchaseOnDemand:
			p.Effective = clone(prices[at].onDemand)
		case fleet.PurchaseSpot:
			p.Effective = clone(prices[at].spot)
		case fleet.PurchaseReserved:
		}
		if p.List != nil || p.Effective != nil {
			p.Source, p.Valid.From = b.cited(o)
		}
	}
	if f, ok := b.freshest(o); ok {
		p.List = &f.Hour
		if o.Purchase == fleet.PurchaseOnDemand {
			p.Effective = clone(p.List)
		}
		if o.Purchase != fleet.PurchaseSpot || p.Effective == nil {
			p.Source, p.Valid.From = f.Source+" "+f.SeenAt.UTC().Format(time.DateOnly), f.From
		}
	}
	return p
}

// cited names the source of an offering's price as "name date" and the moment it speaks of. A Spot offering without a known Spot
// price still cites where its list price came from.
func (b *PriceBook) cited(o fleet.Offering) (string, time.Time) {
	found := Source{Name: "catalogue", Date: b.version}
	for _, s := range b.sources {
		if s.Cloud != o.Cloud {
			continue
		}
		if s.Kind == string(fleet.PurchaseOnDemand) || s.Kind == string(o.Purchase) {
			found = s
		}
		if s.Kind == string(o.Purchase) {
			break
		}
	}
	at, _ := time.Parse(time.DateOnly, found.Date) // checked when the book was parsed
	return found.Name + " " + found.Date, at
}

func clone(m *fleet.Money) *fleet.Money {
	if m == nil {
		return nil
	}
	c := *m
	return &c
}
