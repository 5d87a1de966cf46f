package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

func marketDB(t *testing.T) (*store.DB, devdb.Database) {
	t.Helper()
	d := devdb.ForTest(t, store.MigrateUp)
	db, err := store.Open(context.Background(), d.ServiceURL, store.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db, d
}

func doImport(t *testing.T, db *store.DB, in io.Reader, opt store.SpotWriteOptions) (w store.SpotWritten, err error) {
	t.Helper()
	err = db.Global(context.Background(), func(tx *store.Tx) error {
		w, err = importSpot(context.Background(), tx, in, opt)
		return err
	})
	return w, err
}

// smallHistory is a file in the shape of the AWS histories: pools one after the other, changes only, gaps and disappearances.
func smallHistory(seed uint64, pools, changes int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	b.WriteString("timestamp,cloud,region,zone,instance_type,spot_price,ondemand_price\n")
	for p := range pools {
		at, price := time.Date(2023, 1, 3, 4, 5, 6, 0, time.UTC), 300+r.IntN(300)
		for range changes {
			at = at.Add(time.Duration(3600+r.IntN(80000)) * time.Second)
			price += r.IntN(21) - 10
			price = max(200, min(price, 900))
			spot, list := fmt.Sprintf("%d.%04d", price/1000, price%1000*10), "1.006"
			switch r.IntN(40) {
			case 0:
				spot = ""
			case 1:
				spot, list = "", ""
			}
			fmt.Fprintf(&b, "%s,aws,us-east-1,use1-az%d,g5.xlarge,%s,%s\n", at.Format(time.RFC3339), p+1, spot, list)
		}
	}
	return b.Bytes()
}

// A direct scan of the file: the last row of the pool that is not after t.
func scanFile(t *testing.T, in io.Reader) map[market.SpotPool][]market.SpotChange {
	t.Helper()
	rows := csv.NewReader(in)
	if _, err := rows.Read(); err != nil {
		t.Fatal(err)
	}
	nano := func(s string) market.Listed {
		if s == "" {
			return 0
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return market.Listed(f*1e9 + 0.5)
	}
	out := map[market.SpotPool][]market.SpotChange{}
	for {
		r, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, r[0])
		if err != nil {
			t.Fatal(err)
		}
		p := market.SpotPool{Cloud: "aws", Region: r[2], Zone: r[3], InstanceType: r[4], Product: market.ProductLinux}
		out[p] = append(out[p], market.SpotChange{At: at.Unix(), Spot: nano(r[5]), OnDemand: nano(r[6])})
	}
}

// priceAtEqualsScan asks for random moments of random pools and gives the 99th percentile of the answers' times.
func priceAtEqualsScan(t *testing.T, db *store.DB, file map[market.SpotPool][]market.SpotChange, questions int) time.Duration {
	t.Helper()
	pools := make([]market.SpotPool, 0, len(file))
	for p := range file {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, market.SpotPool.Compare)
	r := rand.New(rand.NewPCG(7, 11))
	took := make([]time.Duration, 0, questions)
	ctx := context.Background()
	err := db.Global(ctx, func(tx *store.Tx) error {
		for range questions {
			p := pools[r.IntN(len(pools))]
			rows := file[p]
			first, last := rows[0].At-86400, rows[len(rows)-1].At+86400
			at := first + r.Int64N(last-first)
			var want market.SpotChange
			found := false
			for _, c := range rows {
				if c.At <= at {
					want, found = c, true
				}
			}
			begun := time.Now()
			got, ok, err := store.SpotPriceAt(ctx, tx, p, time.Unix(at, 0))
			took = append(took, time.Since(begun))
			if err != nil {
				return err
			}
			if ok != found || got.Change.Spot != want.Spot || got.Change.OnDemand != want.OnDemand {
				return fmt.Errorf("%v at %v: found %v %+v, the file says %v %+v", p, time.Unix(at, 0).UTC(), ok, got.Change, found, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

func TestImportAnswersWhatTheFileSays(t *testing.T) {
	db, _ := marketDB(t)
	text := smallHistory(3, 6, 400)
	opt := store.SpotWriteOptions{Source: "small", Prices: market.Catalogue()}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := doImport(t, db, &packed, opt)
	if err != nil {
		t.Fatal(err)
	}
	if first.Rows != 2400 || first.NewPools != 6 || first.Added+first.Unchanged != 2400 || first.Quarantined != 0 {
		t.Fatalf("%+v", first)
	}
	priceAtEqualsScan(t, db, scanFile(t, bytes.NewReader(text)), 2000)
	var perChange float64
	err = db.Global(context.Background(), func(tx *store.Tx) error {
		stock, err := store.Spot(context.Background(), tx)
		perChange = float64(stock.Bytes-emptySpotBytes) / float64(stock.Changes)
		return err
	})
	if err != nil || perChange > 60 { // a few months only, in pages that are half empty
		t.Errorf("%.1f bytes a change, %v", perChange, err)
	}

	again, err := doImport(t, db, bytes.NewReader(text), opt)
	if err != nil {
		t.Fatal(err)
	}
	if again.Added != 0 || again.Chunks != 0 || again.NewPools != 0 || again.Doubts != 0 {
		t.Errorf("the same file again changed something: %+v", again)
	}
}

// The development part of the public AWS history: nothing quarantined, at most 20 bytes a change and 60 CPU-seconds.
func TestImportOfTheSharedHistory(t *testing.T) {
	const name = "aws_spot_price_gpu_changes.csv.gz"
	file := sharedSpot(t, name)
	db, _ := marketDB(t)
	ctx := context.Background()
	began, cpu := time.Now(), cpuSeconds(t)
	var w store.SpotWritten
	backend := 0.0
	err := db.Global(ctx, func(tx *store.Tx) (err error) {
		if w, err = importSpot(ctx, tx, file, store.SpotWriteOptions{Source: name, Prices: market.Catalogue()}); err != nil {
			return err
		}
		var pid int
		if err := tx.PGX().QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		backend = processCPU(pid)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	spent := cpuSeconds(t) - cpu
	t.Logf("%+v", w)
	t.Logf("import: %.1f CPU-seconds here and %.1f in Postgres, %.1f s", spent, backend, time.Since(began).Seconds())
	var stock store.SpotStock
	if err := db.Global(ctx, func(tx *store.Tx) (err error) { stock, err = store.Spot(ctx, tx); return err }); err != nil {
		t.Fatal(err)
	}
	perChange := float64(stock.Bytes) / float64(stock.Changes)
	t.Logf("%d changes of %d pools in %d bytes with indexes: %.2f a change", stock.Changes, stock.Pools, stock.Bytes, perChange)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	p99 := priceAtEqualsScan(t, db, scanFile(t, z), 10_000)
	t.Logf("price at t: 10,000 equal to a scan of the file, p99 %v", p99)
	if int64(w.Rows) != stock.Changes || w.Quarantined != 0 {
		t.Errorf("%d rows became %d changes, %d quarantined", w.Rows, stock.Changes, w.Quarantined)
	}
	if perChange > 20 || spent+backend > 60 {
		t.Errorf("%.2f bytes a change, %.1f CPU-seconds", perChange, spent+backend)
	}
	if os.Getenv("PLIMSOLL_BENCH") != "" && p99 > 2*time.Millisecond {
		t.Errorf("p99 %v", p99)
	}
}

// sharedSpot opens a file of public price histories, which are not part of this repository.
func sharedSpot(t *testing.T, name string) *os.File {
	t.Helper()
	dir := os.Getenv("PLIMSOLL_SPOT_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "data", "spot_prices") // beside the repository
	}
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("needs the public history %s; name its directory in PLIMSOLL_SPOT_DATA: %v", name, err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// cpuSeconds that this process has used.
func cpuSeconds(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// processCPU is what another process has used, where /proc tells; 0 elsewhere.
func processCPU(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// emptySpotBytes is about what the tables take before anything is in them.
const emptySpotBytes = 64 << 10

// A file with bad rows names them and leaves nothing behind, not even the rows before them.
func TestImportOfABadFileLeavesNothing(t *testing.T) {
	db, _ := marketDB(t)
	good := string(smallHistory(4, 2, 50))
	header := strings.SplitAfterN(good, "\n", 2)[0]
	row := "2023-05-01T00:00:00Z,aws,us-east-1,use1-az1,g5.xlarge,0.4,1.006\n"
	many := header
	for i := range 40 {
		many += fmt.Sprintf("day %d,aws,us-east-1,use1-az1,g5.xlarge,0.4,1.006\n", i)
	}
	cut := new(bytes.Buffer)
	z := gzip.NewWriter(cut)
	if _, err := z.Write([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	cut.Truncate(cut.Len() - 20)
	for _, c := range []struct {
		name, text string
		says       []string
	}{
		{"a word for a price, and a field too few", good + strings.Replace(row, "0.4", "cheap", 1) + row + "2023-05-01T00:00:00Z,aws\n", []string{`row 102: "cheap" is not a price`, "row 104: 2 fields instead of 7"}},
		{"a price of the future", good + strings.Replace(row, "2023", "2123", 1), []string{"row 102: 2123-05-01T00:00:00Z is in the future"}},
		{"a quote that never ends", good + `2023-05-01T00:00:00Z,aws,us-"east-1,a,b,1,1` + "\n", []string{"row 102: bare"}},
		{"nothing but bad rows", many, []string{"row 2:", "row 21:", "and perhaps more"}},
		{"no header", "", []string{"no header"}},
		{"another kind of file", "obs,timestamp,rows_in_catalog\n1,2022-11-29T01:45:34Z,5\n", []string{"the header has no column cloud"}},
		{"a gzip file that was cut", cut.String(), []string{"the file breaks off"}},
		{"gzip by name only", "\x1f\x8bnothing", []string{"broken gzip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := doImport(t, db, strings.NewReader(c.text), store.SpotWriteOptions{Source: "bad"})
			if err == nil {
				t.Fatal("it was imported")
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v\ndoes not say %q", err, s)
				}
			}
			if strings.Count(err.Error(), "\n") > maxBadRows+2 {
				t.Errorf("names too many rows: %v", err)
			}
			err = db.Global(context.Background(), func(tx *store.Tx) error {
				stock, err := store.Spot(context.Background(), tx)
				if stock.Pools+stock.Quarantined != 0 || stock.Changes != 0 {
					t.Errorf("left behind: %+v", stock)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Every public history in a shape that makes sense comes in, twice without a difference; the others are refused by name.
func TestImportOfAllSharedShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		trust bool
		bad   string // part of the refusal
	}{
		{"aws_spot_price_history_2020_p2_p3.csv.gz", false, ""},
		{"aws_spot_price_history_2015_auction.csv.gz", true, ""},
		{"azure_spot_price_2020_nc.csv.gz", false, ""},
		{"gcp_gpu_price_history_zone.csv.gz", false, ""},
		{"gcp_price_history_region.csv.gz", false, ""},
		{"aws_spot_price_observations.csv.gz", false, "no column cloud"},
		{"neocloud_gpu_offers_2025.csv.gz", false, "no column cloud"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := sharedSpot(t, c.name)
			db, _ := marketDB(t)
			opt := store.SpotWriteOptions{Source: c.name, Trust: c.trust, Prices: market.Catalogue()}
			w, err := doImport(t, db, file, opt)
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Fatalf("%v, want %q", err, c.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", w)
			if w.Added == 0 || w.Rows != w.Added+w.Unchanged+w.Quarantined || w.Quarantined > w.Rows/20 {
				t.Errorf("%+v", w)
			}
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			again, err := doImport(t, db, file, opt)
			if err != nil || again.Added+again.Chunks+again.Doubts+again.NewPools != 0 || again.Quarantined != w.Quarantined {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// What people type: import, show, history, quarantine.
func TestMarketCommands(t *testing.T) {
	_, d := marketDB(t)
	t.Setenv("PLIMSOLL_DATABASE_URL", d.ServiceURL)
	file := filepath.Join(t.TempDir(), "prices.csv")
	text := string(smallHistory(5, 2, 60)) + "2023-06-30T00:00:00Z,aws,us-east-1,use1-az1,g5.xlarge,9.9,1.006\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"market"}, 2, "Usage: plimsoll market COMMAND"},
		{[]string{"market", "-h"}, 0, "Usage: plimsoll market COMMAND"},
		{[]string{"market", "import"}, 2, "name at least one CSV file"},
		{[]string{"market", "import", file + ".not"}, 1, "no such file"},
		{[]string{"market", "import", file}, 0, "1 quarantined (1 of them new), 2 pools new"},
		{[]string{"market", "import", file}, 0, " 0 changes new"},
		{[]string{"market", "show", "-at", "2023-03-01", "-type", "g5.xlarge", "-limit", "1"}, 0, "1x A10G"},
		{[]string{"market", "show"}, 0, "changes of 2 pools in"},
		{[]string{"market", "history", "-zone", "use1-az2", "-from", "2023-01-05", "-to", "2023-01-10"}, 0, "2023-01-09T00:00:00Z  0."},
		{[]string{"market", "history", "-zone", "use1-az2", "-from", "2023-01-05", "-to", "2023-01-10", "-step", "0"}, 0, "since"},
		{[]string{"market", "history", "-zone", "nowhere"}, 0, "nothing is known"},
		{[]string{"market", "history", "-from", "now"}, 2, "neither a time"},
		{[]string{"market", "quarantine"}, 0, "off_"},
		{[]string{"market", "quarantine", "-accept", "1"}, 0, ""},
		{[]string{"market", "quarantine", "-dismiss", "1"}, 1, "accepted already"},
		{[]string{"market", "show"}, 0, "; 0 in quarantine"},
	} {
		var out, problems bytes.Buffer
		code := run(context.Background(), c.args, &out, &problems)
		if said := out.String() + problems.String(); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%v: status %d, said %q; want %d and %q", c.args, code, said, c.code, c.says)
		}
	}
}

// The demo's prices go on where they ended, and stay away from a database with prices of its own.
func TestDemoMarket(t *testing.T) {
	db, _ := marketDB(t)
	ctx := context.Background()
	tenant, _, err := db.CreateTenant(ctx, store.NewTenant{Name: "Demo", Owner: store.NewUser{Email: "demo@harbour.test", DisplayName: "Demo", PasswordHash: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	stock := func() (s store.SpotStock) {
		if err := db.Global(ctx, func(tx *store.Tx) (err error) { s, err = store.Spot(ctx, tx); return err }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 2 {
		if err := extendDemoMarket(ctx, db, tenant.ID, 1); err != nil {
			t.Fatal(err)
		}
		if s := stock(); s.Pools < 40 || s.Changes < int64(100*s.Pools) || s.Quarantined != 0 || time.Since(*s.Last) > 2*market.DemoSpotEvery {
			t.Errorf("%+v", s)
		}
	}
	other, _ := marketDB(t)
	if _, err := doImport(t, other, bytes.NewReader(smallHistory(1, 1, 5)), store.SpotWriteOptions{Source: "real"}); err != nil {
		t.Fatal(err)
	}
	tenant, _, err = other.CreateTenant(ctx, store.NewTenant{Name: "Demo", Owner: store.NewUser{Email: "demo@harbour.test", DisplayName: "Demo", PasswordHash: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := extendDemoMarket(ctx, other, tenant.ID, 1); err != nil {
		t.Fatal(err)
	}
	err = other.Global(ctx, func(tx *store.Tx) error {
		s, err := store.Spot(ctx, tx)
		if s.Pools != 1 {
			t.Errorf("made-up prices beside real ones: %+v", s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
