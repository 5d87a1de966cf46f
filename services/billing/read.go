package billing

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// Options for Read.
type Options struct {
	Format   Format // empty: found out from the columns
	Currency string // that all charges must have; empty: whichever the first has
}

// parser turns the rows of one format into charges; a row may hold several.
type parser struct {
	format  Format
	rename  func(string) string
	must    []string // columns, by their new names, without which it is no such file
	charges func(*record) ([]Charge, string, error)
}

func parsers() []parser { return []parser{focusParser, awsParser, azureParser, gcpParser} }

// Read reads a bill, zipped or not. All of it is good, or there is an error that says where it is not.
func Read(in io.Reader, opt Options) (File, error) {
	buffered := bufio.NewReaderSize(in, 1<<16)
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return File{}, fleet.Errorf(fleet.CodeInvalid, "the file is damaged: no gzip header")
		}
		in = unzipped
	} else {
		in = buffered
	}
	counted := &counter{in: in}
	hash := sha256.New()
	content := bufio.NewReaderSize(io.TeeReader(counted, hash), 1<<16)
	src, p, place, err := open(content, opt.Format)
	if err != nil {
		return File{}, err
	}
	b := &book{file: File{Format: p.format, Currency: opt.Currency}, at: map[Dimensions]int{}, periods: map[Period]int{}, must: opt.Currency}
	used := map[string]bool{}
	for {
		r, err := src.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return File{}, err
		}
		r.place, r.used, r.rounded = place, used, &b.file.Rounded
		if b.file.Lines++; b.file.Lines > maxLines {
			return File{}, fleet.Errorf(fleet.CodeTooLarge, "the file has more than %d rows", maxLines)
		}
		charges, currency, err := p.charges(r)
		if err != nil {
			return File{}, err
		}
		if err := b.add(r, charges, currency); err != nil {
			return File{}, err
		}
	}
	if b.file.Lines == 0 {
		return File{}, fleet.Errorf(fleet.CodeInvalid, "the file has no rows")
	}
	f := b.finish()
	f.Columns = len(src.columns())
	for _, n := range src.columns() {
		name := n
		if place != nil {
			name = p.rename(n)
		}
		if !used[name] {
			f.Unknown = append(f.Unknown, n)
		}
	}
	f.Bytes, f.Hash = counted.n, hex.EncodeToString(hash.Sum(nil))
	return f, nil
}

// open finds the format and names the columns.
func open(content *bufio.Reader, want Format) (source, parser, map[string]int, error) {
	if want != "" && !slices.Contains(Formats(), want) {
		return nil, parser{}, nil, fleet.Errorf(fleet.CodeInvalid, "%q is not a format of bills", clip(string(want)))
	}
	if first, err := content.Peek(1); err == nil && first[0] == '{' {
		if want != "" && want != FormatGCP {
			return nil, parser{}, nil, fleet.Errorf(fleet.CodeInvalid, "the file holds JSON; only Google's export does")
		}
		return newJSON(content), gcpParser, nil, nil
	}
	src, err := newCSV(content)
	if err != nil {
		return nil, parser{}, nil, err
	}
	var closest string
	best := 0
	for _, p := range parsers() {
		if want != "" && p.format != want {
			continue
		}
		place := make(map[string]int, len(src.names))
		for i, n := range src.names {
			name := p.rename(n)
			if _, ok := place[name]; !ok {
				place[name] = i
			}
		}
		var missing []string
		for _, m := range p.must {
			if !slices.ContainsFunc(strings.Split(m, "|"), func(n string) bool { _, ok := place[n]; return ok }) {
				missing = append(missing, m)
			}
		}
		if len(missing) == 0 {
			return src, p, place, nil
		}
		if found := len(p.must) - len(missing); found > best || want != "" {
			best, closest = found, fmt.Sprintf("%s needs the column %s", p.format, strings.ReplaceAll(missing[0], "|", " or "))
		}
	}
	if closest == "" {
		return nil, parser{}, nil, fleet.Errorf(fleet.CodeInvalid, "the columns are of no bill that is known here: FOCUS, AWS CUR, Azure cost details, Google detailed export")
	}
	return nil, parser{}, nil, fleet.Errorf(fleet.CodeInvalid, "the columns are of no bill that is known here; %s", closest)
}

// counter bounds what is unzipped.
type counter struct {
	in io.Reader
	n  int64
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if c.n += int64(n); c.n > MaxBytes {
		return 0, fleet.Errorf(fleet.CodeTooLarge, "the file is larger than %d bytes", MaxBytes)
	}
	return n, err
}

// book adds charges up.
type book struct {
	file    File
	must    string // currency
	at      map[Dimensions]int
	periods map[Period]int // by what tells them apart
	words   map[string]string
}

// word keeps one copy of a text: a file names few things often.
func (b *book) word(s string) string {
	if s == "" {
		return ""
	}
	if w, ok := b.words[s]; ok {
		return w
	}
	if b.words == nil {
		b.words = map[string]string{}
	}
	if len(b.words) > 4*maxRows {
		return strings.Clone(s)
	}
	s = strings.Clone(s)
	b.words[s] = s
	return s
}

func (b *book) add(r *record, charges []Charge, currency string) error {
	switch {
	case len(currency) != 3:
		return r.fail("currency", "%q is not a currency", clip(currency))
	case b.must != "" && currency != b.must:
		return r.fail("currency", "the charge is in %s, the ledger in %s; convert the bill first, nothing is converted here", currency, b.must)
	}
	b.must, b.file.Currency = currency, strings.Clone(currency)
	for _, c := range charges {
		if !c.From.Before(c.To) {
			return r.fail("charge period", "the end is not after the beginning")
		}
		b.file.From, b.file.To = earlier(b.file.From, c.From), later(b.file.To, c.To)
		d := &c.Dimensions
		if day := c.From.Truncate(24 * time.Hour); !c.To.After(day.Add(24 * time.Hour)) {
			d.From, d.To = day, day.Add(24*time.Hour)
		}
		b.charge(c)
		if len(b.file.Rows) > maxRows {
			return fleet.Errorf(fleet.CodeTooLarge, "row %d: the file holds more than %d different charges a day; import it in parts", r.line, maxRows)
		}
	}
	return nil
}

func (b *book) charge(c Charge) {
	d := c.Dimensions
	for _, s := range []*string{&d.Provider, &d.Account, &d.SubAccount, &d.Service, &d.Region, &d.Zone, &d.Resource, &d.ResourceName, &d.InstanceType, &d.Commitment, &d.SKU, &d.Unit, &d.Invoice} {
		*s = b.word(*s)
	}
	i, ok := b.at[d]
	if !ok {
		i = len(b.file.Rows)
		b.at[d] = i
		b.file.Rows = append(b.file.Rows, Row{Dimensions: d, FirstLine: c.Line, Description: b.word(clip(c.Description))})
	}
	row := &b.file.Rows[i]
	row.Lines++
	row.Billed = row.Billed.Add(c.Billed)
	b.file.Billed = b.file.Billed.Add(c.Billed)
	if c.Effective != nil {
		row.Effective = row.Effective.Add(*c.Effective)
		b.file.Effect = b.file.Effect.Add(*c.Effective)
	} else {
		row.NoEffective++
		b.file.NoEffective++
	}
	if c.List != nil {
		row.List = row.List.Add(*c.List)
		b.file.List = b.file.List.Add(*c.List)
	} else {
		row.NoList++
		b.file.NoList++
	}
	if c.Quantity != nil {
		row.Quantity = row.Quantity.Add(*c.Quantity)
	}
	if c.Hours != nil {
		row.Hours = row.Hours.Add(*c.Hours)
	} else if d.Kind == KindMachine {
		row.NoHours++
	}
	key := Period{Provider: d.Provider, Account: d.Account, From: d.PeriodFrom, To: d.PeriodTo}
	p, ok := b.periods[key]
	if !ok {
		p = len(b.file.Periods)
		b.periods[key] = p
		b.file.Periods = append(b.file.Periods, key)
	}
	b.file.Periods[p].Lines++
	b.file.Periods[p].Billed = b.file.Periods[p].Billed.Add(c.Billed)
}

func (b *book) finish() File {
	slices.SortFunc(b.file.Rows, func(x, y Row) int {
		return cmp.Or(x.From.Compare(y.From), x.To.Compare(y.To), cmp.Compare(x.FirstLine, y.FirstLine))
	})
	slices.SortFunc(b.file.Periods, func(x, y Period) int {
		return cmp.Or(cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Account, y.Account), x.From.Compare(y.From), x.To.Compare(y.To))
	})
	return b.file
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func date(year, month int) time.Time {
	return time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
}

// month is the calendar month of UTC that t lies in.
func month(t time.Time) (from, to time.Time) {
	from = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}
