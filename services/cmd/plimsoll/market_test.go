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
	path := filepath.Join(os.Getenv("PLIMSOLL_SPOT_DATA"), name)
	if os.Getenv("PLIMSOLL_SPOT_DATA") == "" {
		t.Skip("set PLIMSOLL_SPOT_DATA to a directory with " + name)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Skipf("the public price history is not here: %v", err)
	}
	defer file.Close()
	db, d := marketDB(t)
	ctx := context.Background()
	began, cpu := time.Now(), cpuSeconds(t)
	var w store.SpotWritten
	backend := 0.0
	err = db.Global(ctx, func(tx *store.Tx) (err error) {
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
	_ = d
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
