package lab

import (
	"io"
	"math"
	"sort"
	"strconv"

	"plimsoll.dev/services/fleet"
)

// What the files of ServeGen (Alibaba, Apache-2.0; "ServeGen: Workload Characterization and Generation of Large Language Model Serving
// in Production", 2025) hold, per client: request rate and spread of the times between arrivals every ten minutes, and the
// distribution of tokens every six hours.
const (
	rateWindow  = 600
	tokenWindow = 6 * 3600
	maxOffset   = 60 * 86400
	maxClients  = 10_000
	maxRows     = 5_000_000
)

var (
	rateColumns  = []string{"model", "client", "offset_seconds", "requests_per_second", "arrival_cv", "pattern", "param1", "param2"}
	tokenColumns = []string{"model", "client", "offset_seconds", "client_rps_in_that_10min_window", "input_mean", "input_p50", "input_p90", "input_p99", "output_mean", "output_p50", "output_p90", "output_p99"}
)

// Client is one caller of a model.
type Client struct {
	ID     int
	Rates  []RateWindow  // sorted by offset; windows without requests are left out
	Tokens []TokenWindow // sorted by offset; empty when the source publishes none
}

// RateWindow is ten minutes of a client.
type RateWindow struct {
	Offset int     // seconds
	Rate   float64 // requests per second
	CV     float64 // of the times between arrivals; 1 is a Poisson stream
}

// TokenWindow is what a client's requests looked like around an offset.
type TokenWindow struct {
	Offset        int
	Rate          float64
	Input, Output Spread
}

// Spread is a distribution by four numbers.
type Spread struct{ Mean, P50, P90, P99 float64 }

// ReadRates reads the clients of one model from a file of rates. The error names the row (the header is row 1) and what is wrong with it.
func ReadRates(r io.Reader, model string) ([]Client, error) {
	byID := map[int]*Client{}
	err := readRows(r, rateColumns, model, func(row *csvRow) error {
		w := RateWindow{Offset: row.offset(rateWindow), Rate: row.number(3, 1e9), CV: 1}
		if row.fields[4] != "" {
			w.CV = row.number(4, 1e4)
		}
		switch row.fields[5] {
		case "Gamma", "Weibull", "":
		default:
			return row.refuse("arrival pattern %q; want Gamma or Weibull", row.fields[5])
		}
		c, err := row.client(byID)
		if err != nil {
			return err
		}
		if n := len(c.Rates); n > 0 && c.Rates[n-1].Offset >= w.Offset {
			return row.refuse("offset %d of client %d after %d; want them in rising order", w.Offset, c.ID, c.Rates[n-1].Offset)
		}
		if w.Rate > 0 {
			c.Rates = append(c.Rates, w)
		}
		return nil
	})
	return sortedClients(byID), err
}

// ReadTokens adds the token distributions of one model to its clients. Those of clients without rates are left out.
func ReadTokens(r io.Reader, model string, clients []Client) error {
	byID := map[int]*Client{}
	for i := range clients {
		byID[clients[i].ID] = &clients[i]
	}
	return readRows(r, tokenColumns, model, func(row *csvRow) error {
		w := TokenWindow{Offset: row.offset(tokenWindow), Rate: row.number(3, 1e9)}
		id := row.whole(1, 1<<30)
		if row.fields[4] == "" {
			return row.err // nothing was asked in that window
		}
		w.Input, w.Output = row.spread(4), row.spread(8)
		c := byID[id]
		if row.err != nil || c == nil {
			return row.err
		}
		if n := len(c.Tokens); n > 0 && c.Tokens[n-1].Offset >= w.Offset {
			return row.refuse("offset %d of client %d after %d; want them in rising order", w.Offset, id, c.Tokens[n-1].Offset)
		}
		c.Tokens = append(c.Tokens, w)
		return nil
	})
}

func sortedClients(byID map[int]*Client) []Client {
	out := make([]Client, 0, len(byID))
	for _, c := range byID {
		out = append(out, *c)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// csvRow reads one row; the first thing that is wrong stays in err.
type csvRow struct {
	row     int // the row's number, the header is 1
	columns []string
	fields  []string
	err     error
}

// readRows reads the rows of one model.
func readRows(r io.Reader, columns []string, model string, each func(*csvRow) error) error {
	return readTable(r, columns, func(row *csvRow) error {
		switch {
		case row.row > maxRows:
			return row.refuse("more than %d rows", maxRows)
		case row.fields[0] != model:
			return nil
		}
		return each(row)
	})
}

func (r *csvRow) refuse(format string, args ...any) error {
	if r.err == nil {
		r.err = fleet.Errorf(fleet.CodeInvalid, "row %d: "+format, append([]any{r.row}, args...)...)
	}
	return r.err
}

func (r *csvRow) number(i int, high float64) float64 {
	v, err := strconv.ParseFloat(r.fields[i], 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > high {
		_ = r.refuse("%s is %q; want a number from 0 to %g", r.columns[i], r.fields[i], high)
		return 0
	}
	return v
}

func (r *csvRow) whole(i, high int) int {
	v, err := strconv.Atoi(r.fields[i])
	if err != nil || v < 0 || v > high {
		_ = r.refuse("%s is %q; want a whole number from 0 to %d", r.columns[i], r.fields[i], high)
		return 0
	}
	return v
}

func (r *csvRow) offset(step int) int {
	v := r.whole(2, maxOffset)
	if v%step != 0 {
		_ = r.refuse("offset_seconds is %d; want a multiple of %d", v, step)
	}
	return v
}

func (r *csvRow) spread(i int) Spread {
	s := Spread{Mean: r.number(i, 1e7), P50: r.number(i+1, 1e7), P90: r.number(i+2, 1e7), P99: r.number(i+3, 1e7)}
	if s.P50 > s.P90 || s.P90 > s.P99 {
		_ = r.refuse("%s to %s fall: %g, %g, %g", r.columns[i+1], r.columns[i+3], s.P50, s.P90, s.P99)
	}
	return s
}

func (r *csvRow) client(byID map[int]*Client) (*Client, error) {
	id := r.whole(1, 1<<30)
	if r.err != nil {
		return nil, r.err
	}
	c := byID[id]
	if c == nil {
		if len(byID) >= maxClients {
			return nil, r.refuse("more than %d clients", maxClients)
		}
		c = &Client{ID: id}
		byID[id] = c
	}
	return c, nil
}
