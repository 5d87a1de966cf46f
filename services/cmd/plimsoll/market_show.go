package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

// poolFlags choose pools; the returned filter is filled when the flags are parsed.
func poolFlags(set *flag.FlagSet) (filter func() store.SpotFilter) {
	cloud := set.String("cloud", "", "aws, azure or gcp (default: all)")
	region := set.String("region", "", "region (default: all)")
	zone := set.String("zone", "", "zone (default: all)")
	machine := set.String("type", "", "instance type (default: all)")
	product := set.String("product", market.ProductLinux, "operating system, or accelerator for prices without a machine")
	return func() store.SpotFilter {
		f := store.SpotFilter{Cloud: fleet.Cloud(*cloud), Region: *region, Zone: *zone, Product: *product}
		if *machine != "" {
			f.InstanceTypes = []string{*machine}
		}
		return f
	}
}

// timeFlag reads a time as RFC 3339 or as a date.
func timeFlag(text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return otherwise, fleet.Errorf(fleet.CodeInvalid, "%q is neither a time such as 2023-12-31T00:00:00Z nor a date", text)
}

func marketHistory(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market history", flag.ContinueOnError)
	filter := poolFlags(set)
	fromText := set.String("from", "", "time or date (default: 30 days before -to)")
	toText := set.String("to", "", "time or date (default: now)")
	step := set.Duration("step", 24*time.Hour, "length of a line's time; 0 prints every change")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	to, err := timeFlag(*toText, time.Now().UTC())
	if err != nil {
		return err
	}
	from, err := timeFlag(*fromText, to.AddDate(0, 0, -30))
	if err != nil {
		return err
	}
	if !from.Before(to) || *step < 0 || *step > 0 && to.Sub(from) / *step > 100_000 || *step%time.Second != 0 {
		return fleet.Errorf(fleet.CodeInvalid, "-from must be before -to, and -step whole seconds that give at most 100000 lines")
	}
	db, err := openMarket(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	f := filter()
	f.Limit = 100
	var series []store.SpotSeries
	err = db.Global(ctx, func(tx *store.Tx) error {
		series, err = store.SpotHistory(ctx, tx, f, from, to)
		return err
	})
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, s := range series {
		p := s.State.Pool
		fmt.Fprintf(out, "%s %s %s %s, USD per hour\n", p.Cloud, or(p.Zone, p.Region), p.InstanceType, p.Product)
		if *step == 0 {
			fmt.Fprintln(out, "since\tspot\ton demand")
			for _, c := range s.Changes {
				fmt.Fprintf(out, "%s\t%s\t%s\n", c.Time().Format(time.RFC3339), listed(c.Spot), listed(c.OnDemand))
			}
			continue
		}
		fmt.Fprintln(out, "from\tmin\tmean\tmax\tlast\ton demand")
		for _, b := range market.SpotBuckets(s.Changes, from, to, *step) {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", b.At.Format(time.RFC3339), listed(b.Min), listed(b.Avg), listed(b.Max), listed(b.Last), listed(b.OnDemand))
		}
	}
	if len(series) == 0 {
		fmt.Fprintln(out, "nothing is known of such a pool in that time")
	}
	return out.Flush()
}

func listed(l market.Listed) string {
	if m := l.Money(); m != nil {
		return m.String()
	}
	return "-"
}

func marketShow(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market show", flag.ContinueOnError)
	filter := poolFlags(set)
	model := set.String("gpu", "", "GPU model, such as H100 (default: any machine)")
	gpus := set.Int("min-gpus", 0, "GPUs of a machine")
	memory := set.Int64("min-gpu-memory", 0, "MiB of one GPU")
	limit := set.Int("limit", 20, "lines")
	atText := set.String("at", "", "time or date (default: now)")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	at, err := timeFlag(*atText, time.Now().UTC())
	if err != nil {
		return err
	}
	db, err := openMarket(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var stock store.SpotStock
	var states []market.SpotState
	err = db.Global(ctx, func(tx *store.Tx) error {
		if stock, err = store.Spot(ctx, tx); err != nil {
			return err
		}
		states, err = store.SpotStates(ctx, tx, filter(), at)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d changes of %d pools in %d bytes", stock.Changes, stock.Pools, stock.Bytes)
	if stock.Changes > 0 {
		fmt.Fprintf(stdout, " (%.1f a change), %s to %s", float64(stock.Bytes)/float64(stock.Changes), stock.First.Format("2006-01"), stock.Last.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(stdout, "; %d in quarantine\n", stock.Quarantined)
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "pool\ttype\tGPUs\tspot/h\tper GPU\ton demand/h\tdiscount\tsince\tsource")
	offers := market.Catalogue().CheapestSpot(states, market.CheapestFilter{Cloud: filter().Cloud, Region: filter().Region, InstanceTypes: filter().InstanceTypes,
		GPUModel: fleet.GPUModel(*model), MinGPUs: *gpus, MinGPUMemoryMiB: *memory, Limit: *limit}, at)
	for _, o := range offers {
		stale := ""
		if o.Quote.Stale {
			stale = " (stale)"
		}
		fmt.Fprintf(out, "%s %s\t%s\t%dx %s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", o.Pool.Cloud, or(o.Pool.Zone, o.Pool.Region), o.Pool.InstanceType, o.Type.GPUCount, or(string(o.Type.GPUModel), "-"),
			o.Quote.Price, orDash(o.PerGPU), orDash(o.OnDemand), percent(o.Discount), o.Quote.At.Format(time.DateOnly), o.Quote.Source, stale)
	}
	return out.Flush()
}

func orDash(m *fleet.Money) string {
	if m == nil {
		return "-"
	}
	return m.String()
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(*share*100, 'f', 0, 64) + " %"
}

func marketQuarantine(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market quarantine", flag.ContinueOnError)
	accept := set.Int64("accept", 0, "believe the price of this id; history before it judges no more")
	dismiss := set.Int64("dismiss", 0, "the price of this id was wrong")
	if err := parse(set, args, stderr, 0); err != nil {
		return err
	}
	db, err := openMarket(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Global(ctx, func(tx *store.Tx) error {
		if *accept != 0 || *dismiss != 0 {
			id := max(*accept, *dismiss)
			return store.DecideQuarantined(ctx, tx, id, *accept != 0)
		}
		prices, err := store.QuarantinedPrices(ctx, tx, 1000)
		if err != nil {
			return err
		}
		out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "id\tpool\ttype\tat\tspot\ton demand\texpected\treason\tsource")
		for _, q := range prices {
			fmt.Fprintf(out, "%d\t%s %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", q.ID, q.Pool.Cloud, or(q.Pool.Zone, q.Pool.Region), q.Pool.InstanceType, q.At.UTC().Format(time.RFC3339),
				or(q.Spot, "-"), or(q.OnDemand, "-"), orDash(q.Expected), q.Reason, q.Source)
		}
		return out.Flush()
	})
}
