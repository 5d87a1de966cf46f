package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/devdb"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
	"plimsoll.dev/services/wire/frame"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// TestIngestAgainstCopy measures how many samples a second of CPU takes in, by the frame path of the product (check, unpack, row-level
// security, watermark, commit) and by the fastest plain way into the same server: binary COPY of rows of twelve fields into a table
// without index, without row-level security, one commit per as many samples. CPU is user+system of this process and of all of
// Postgres' processes, the server is durable (fsync on), and both take turns so that a busy machine slows both. scripts/bench runs it.
func TestIngestAgainstCopy(t *testing.T) {
	if os.Getenv("PLIMSOLL_BENCH") == "" {
		t.Skip("a benchmark: run ./scripts/bench ingest")
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the CPU of Postgres is read from /proc, which is not here")
	}
	b := openBench(t)
	defer b.close()
	for _, ticks := range []int{4, 60} {
		b.compare(t, 500, ticks)
	}
	b.history(t)
}

const (
	benchFields = 12
	benchRound  = 2 * time.Second
	benchRounds = 5
)

type bench struct {
	site
	server *devdb.Server
	owner  *pgx.Conn
	dir    string
}

func openBench(t *testing.T) *bench {
	t.Helper()
	ctx := context.Background()
	root := ""
	if os.Geteuid() == 0 {
		root = "/var/tmp" // the database's account must reach it
	}
	dir, err := os.MkdirTemp(root, "plimsoll-bench-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: filepath.Join(dir, "pg"), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{server: server, dir: dir}
	if err := store.MigrateUp(ctx, server.URL); err != nil {
		t.Fatal(err)
	}
	if b.owner, err = pgx.Connect(ctx, server.URL); err != nil {
		t.Fatal(err)
	}
	b.exec(t, `CREATE ROLE bench LOGIN PASSWORD 'bench' IN ROLE plimsoll_service`)
	fields := make([]string, benchFields)
	for i := range fields {
		fields[i] = fmt.Sprintf("f%d float8", i)
	}
	b.exec(t, `CREATE TABLE wide (at timestamptz NOT NULL, gpu integer NOT NULL, `+strings.Join(fields, ", ")+`)`)
	if b.db, err = store.Open(ctx, strings.Replace(server.URL, "postgres@", "bench:bench@", 1), store.Options{MaxConns: 4}); err != nil {
		t.Fatal(err)
	}
	b.tenant = fleet.TenantID(uuid.NewString())
	return b
}

func (b *bench) close() {
	b.db.Close()
	_ = b.owner.Close(context.Background())
	b.server.Stop()
	_ = os.RemoveAll(b.dir)
}

func (b *bench) exec(t *testing.T, sql string) {
	t.Helper()
	if _, err := b.owner.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// cpu is what this process and all processes of Postgres have used so far. What ended backends used is with their parent.
func (b *bench) cpu(t *testing.T) (client, server time.Duration) {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	client = time.Duration(use.Utime.Nano() + use.Stime.Nano())
	postmaster := strconv.Itoa(b.server.Pid())
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		_, rest, ok := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest)
		pid := filepath.Base(filepath.Dir(path))
		if !ok || len(f) < 15 || (pid != postmaster && f[1] != postmaster) {
			continue
		}
		columns := []int{11, 12} // utime, stime
		if pid == postmaster {
			columns = append(columns, 13, 14) // of its ended children
		}
		for _, c := range columns {
			n, _ := strconv.ParseInt(f[c], 10, 64)
			server += time.Duration(n) * time.Second / 100 // clock ticks
		}
	}
	return client, server
}

// spent runs work for a while and returns samples per CPU-second.
func (b *bench) spent(t *testing.T, work func() int) (rate, wall, share float64) {
	t.Helper()
	c0, s0 := b.cpu(t)
	started := time.Now()
	samples := 0
	for time.Since(started) < benchRound {
		samples += work()
	}
	took := time.Since(started)
	c1, s1 := b.cpu(t)
	all := (c1 - c0) + (s1 - s0)
	return float64(samples) / all.Seconds(), float64(samples) / took.Seconds(), float64(s1-s0) / float64(all)
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

func (b *bench) compare(t *testing.T, gpus, ticks int) {
	t.Helper()
	ctx := context.Background()
	b.cluster = b.addCluster(t, b.tenant, fmt.Sprintf("%d-%d", gpus, ticks))
	src := b.open(t, hello(1))
	pack, columns := telemetry(t, gpus, ticks, 16)
	step := 60_000 / int64(ticks)
	samples := gpus * benchFields * ticks
	seq, size := uint64(0), 0
	push := func() int {
		seq++
		from := day.Add(time.Duration(seq) * time.Minute)
		body := &agentv1.Frame{FromMs: from.UnixMilli(), ToMs: from.UnixMilli() + 60_000}
		// The ticks are inside the payload, so that it is packed here; what that takes is measured by itself below.
		f := columns[int(seq)%len(columns)]
		for i := range f.Ticks {
			f.Ticks[i] = from.UnixMilli() + int64(i)*step
		}
		if seq == 1 {
			for id := range f.Series {
				body.Series = append(body.Series, &agentv1.SeriesDef{Id: uint32(id + 1), Kind: "gpu", Entity: fmt.Sprintf("GPU-%d", id/benchFields), Field: fmt.Sprintf("f%d", id%benchFields)})
			}
		}
		body.Payload = pack(f)
		size = len(body.Payload)
		out, err := src.Ingest(ctx, day, []*agentv1.Report{{Seq: seq, AtMs: body.GetToMs(), Body: &agentv1.Report_Frame{Frame: body}}}, nil)
		if err != nil || out[0].Result != "accepted" {
			t.Fatal(out, err)
		}
		return samples
	}
	rowsAt := day
	names := []string{"at", "gpu"}
	for i := range benchFields {
		names = append(names, fmt.Sprintf("f%d", i))
	}
	copyRows := func() int {
		rowsAt = rowsAt.Add(time.Minute)
		f := columns[int(rowsAt.Unix()/60)%len(columns)]
		row := make([]any, 2+benchFields)
		n := 0
		_, err := b.owner.CopyFrom(ctx, pgx.Identifier{"wide"}, names, pgx.CopyFromFunc(func() ([]any, error) {
			if n == gpus*ticks {
				return nil, nil
			}
			gpu, tick := n/ticks, n%ticks
			row[0], row[1] = rowsAt.Add(time.Duration(int64(tick)*step)*time.Millisecond), int32(gpu)
			for k := range benchFields {
				row[2+k] = f.Values[gpu*benchFields+k][tick]
			}
			n++
			return row, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return samples
	}
	packed := make([][]byte, len(columns)) // rows as COPY wants them: nothing is left for the client but to send them
	for i, f := range columns {
		packed[i] = binaryRows(f, gpus, ticks, step)
	}
	copyPacked := func() int {
		rowsAt = rowsAt.Add(time.Minute)
		_, err := b.owner.PgConn().CopyFrom(ctx, bytes.NewReader(packed[int(rowsAt.Unix()/60)%len(packed)]), "COPY wide FROM STDIN BINARY")
		if err != nil {
			t.Fatal(err)
		}
		return samples
	}
	push()
	copyRows()
	copyPacked()
	var ours, theirs, bare, wallOurs, wallTheirs, shareOurs, packing []float64
	for range benchRounds {
		r, w, s := b.spent(t, push)
		ours, wallOurs, shareOurs = append(ours, r), append(wallOurs, w), append(shareOurs, s)
		r, w, _ = b.spent(t, copyRows)
		theirs, wallTheirs = append(theirs, r), append(wallTheirs, w)
		b.exec(t, "TRUNCATE wide")
		r, _, _ = b.spent(t, copyPacked)
		bare = append(bare, r)
		b.exec(t, "TRUNCATE wide")
		r, _, _ = b.spent(t, func() int { pack(columns[0]); return samples })
		packing = append(packing, r)
	}
	// The agent's packing is inside of what was measured for us; take it out to get the service's part.
	service := 1 / (1/median(ours) - 1/median(packing))
	fmt.Printf("%d GPUs x %d fields x %d ticks a frame: %d samples per commit, %.2f bytes a sample\n", gpus, benchFields, ticks, samples, float64(size)/float64(samples))
	fmt.Printf("  frames, with the agent's packing   %6.1f M samples per CPU-second (%.1f M/s of wall time, Postgres' share of the CPU %.0f %%)\n", median(ours)/1e6, median(wallOurs)/1e6, 100*median(shareOurs))
	fmt.Printf("  frames, service and Postgres only  %6.1f M samples per CPU-second\n", service/1e6)
	fmt.Printf("  the agent's packing alone          %6.1f M samples per CPU-second\n", median(packing)/1e6)
	fmt.Printf("  raw COPY of rows of %d fields      %6.1f M samples per CPU-second (%.1f M/s of wall time)\n", benchFields, median(theirs)/1e6, median(wallTheirs)/1e6)
	fmt.Printf("  the same, rows packed beforehand   %6.1f M samples per CPU-second: Postgres alone\n", median(bare)/1e6)
	fmt.Printf("  ratio %.1f to COPY (with packing %.1f), %.1f to COPY packed beforehand; goal 1.5\n", service/median(theirs), median(ours)/median(theirs), service/median(bare))
	if service < 1.5*median(theirs) {
		t.Errorf("the frame path is only %.2f times raw COPY", service/median(theirs))
	}
}

// binaryRows writes a frame's rows in COPY's binary format.
func binaryRows(f frame.Frame, gpus, ticks int, step int64) []byte {
	out := append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for gpu := range gpus {
		for tick := range ticks {
			out = binary.BigEndian.AppendUint16(out, 2+benchFields)
			out = binary.BigEndian.AppendUint32(out, 8)
			out = binary.BigEndian.AppendUint64(out, uint64(day.Sub(epoch).Microseconds()+int64(tick)*step*1000))
			out = binary.BigEndian.AppendUint32(out, 4)
			out = binary.BigEndian.AppendUint32(out, uint32(gpu))
			for k := range benchFields {
				out = binary.BigEndian.AppendUint32(out, 8)
				out = binary.BigEndian.AppendUint64(out, math.Float64bits(f.Values[gpu*benchFields+k][tick]))
			}
		}
	}
	return binary.BigEndian.AppendUint16(out, math.MaxUint16)
}

// telemetry makes frames as a DCGM exporter fills them.
func telemetry(t *testing.T, gpus, ticks, n int) (pack func(frame.Frame) []byte, columns []frame.Frame) {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	scales := []struct{ top, sigma, places float64 }{{100, 3, 0}, {1, .03, 6}, {1, .03, 6}, {1, .02, 6}, {1, .02, 6}, {700, 12, 3}, {90, .6, 0}, {90, .4, 0},
		{1980, 15, 0}, {2619, 0, 0}, {81559, 40, 0}, {3e9, 1e7, 0}}
	for range n {
		f := frame.Frame{Ticks: make([]int64, ticks)}
		for g := range gpus {
			for k, s := range scales {
				col := make([]float64, ticks)
				v := rng.Float64() * s.top
				for i := range col {
					v = min(s.top, max(0, v+rng.NormFloat64()*s.sigma))
					col[i] = math.Round(v*math.Pow(10, s.places)) / math.Pow(10, s.places)
				}
				f.Series, f.Values = append(f.Series, uint32(g*benchFields+k+1)), append(f.Values, col)
			}
		}
		for i := range f.Ticks {
			f.Ticks[i] = day.UnixMilli() + int64(i)
		}
		columns = append(columns, f)
	}
	return func(f frame.Frame) []byte {
		payload, err := frame.Encode(f, frame.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}, columns
}

// history measures the backfill of a demo: two weeks of six workloads and thirty GPUs in frames of five minutes, from ingest to chunks
// and roll-ups.
func (b *bench) history(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	b.cluster = b.addCluster(t, b.tenant, "history")
	src := b.open(t, hello(1))
	const frames, perFrame = 14 * 288, 20
	workloads := []string{"replicas", "ready", "starting", "request_rate", "queue_length", "running_requests", "latency_p50_seconds", "latency_p99_seconds",
		"ttft_p99_seconds", "kv_cache_ratio", "gpu_sm_active_ratio", "gpu_util_ratio", "cpu_ratio", "error_ratio", "late_ratio"}
	gpus := []string{"gpu_util", "sm_active", "tensor_active", "dram_active", "power", "temperature", "memory_used", "sm_clock"}
	var defs []*agentv1.SeriesDef
	add := func(kind, entity, field string) {
		defs = append(defs, &agentv1.SeriesDef{Id: uint32(len(defs) + 1), Kind: kind, Entity: entity, Field: field})
	}
	for w := range 6 {
		for _, field := range workloads {
			add("workload", fmt.Sprintf("serving/Deployment/w%d", w), field)
		}
	}
	for g := range 30 {
		for _, field := range gpus {
			add("gpu", fmt.Sprintf("GPU-%d", g), field)
		}
	}
	rng := rand.New(rand.NewSource(2))
	value := make([]float64, len(defs))
	var reports []*agentv1.Report
	for n := range frames {
		from := day.Add(time.Duration(n) * 5 * time.Minute)
		f := frame.Frame{}
		for i := range perFrame {
			f.Ticks = append(f.Ticks, from.UnixMilli()+int64(i)*15_000)
		}
		for s := range defs {
			col := make([]float64, perFrame)
			for i := range col {
				value[s] = math.Round(max(0, value[s]+rng.NormFloat64())*1000) / 1000
				col[i] = value[s]
			}
			f.Series, f.Values = append(f.Series, defs[s].GetId()), append(f.Values, col)
		}
		payload, err := frame.Encode(f, frame.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		body := &agentv1.Frame{FromMs: from.UnixMilli(), ToMs: from.UnixMilli() + 300_000, Payload: payload}
		if n == 0 {
			body.Series = defs
		}
		reports = append(reports, &agentv1.Report{Seq: uint64(n + 1), AtMs: body.GetToMs(), Body: &agentv1.Report_Frame{Frame: body}})
	}
	c0, s0 := b.cpu(t)
	started := time.Now()
	for len(reports) > 0 {
		n := min(40, len(reports))
		out, err := src.Ingest(ctx, day, reports[:n], nil)
		if err != nil || out[n-1].Result != "accepted" {
			t.Fatal(out, err)
		}
		reports = reports[n:]
	}
	c1, s1 := b.cpu(t)
	ingested := time.Since(started)
	samples := int64(0)
	var blocks []time.Time
	b.tx(t, b.tenant, func(ctx context.Context, tx *store.Tx) (err error) {
		blocks, err = store.DirtyBlocks(ctx, tx, b.cluster)
		return err
	})
	started = time.Now()
	for _, block := range blocks {
		samples += b.compact(t, block).Samples
	}
	c2, s2 := b.cpu(t)
	all := c2 - c1 + s2 - s1
	fmt.Printf("two weeks of 6 workloads and 30 GPUs, %d frames, %.1f M samples\n", frames, float64(samples)/1e6)
	fmt.Printf("  ingest      %.1f CPU-seconds (service %.1f, Postgres %.1f), %.1f s of wall time\n", (c1 - c0 + s1 - s0).Seconds(), (c1 - c0).Seconds(), (s1 - s0).Seconds(), ingested.Seconds())
	fmt.Printf("  compaction  %.1f CPU-seconds (service %.1f, Postgres %.1f), %.1f s of wall time, %d blocks; goal 15 CPU-seconds\n", all.Seconds(), (c2 - c1).Seconds(), (s2 - s1).Seconds(), time.Since(started).Seconds(), len(blocks))
	if all > 15*time.Second {
		t.Errorf("compaction took %s of CPU", all)
	}
}
