package focus

import (
	"errors"
	"io"
	"math/big"

	"plimsoll.dev/services/fleet"
)

// Finding is a rule that a file breaks.
type Finding struct {
	Rule   Rule
	Line   int // the first; 0: the header
	Detail string
	Count  int // how often
}

// Report is what a check found.
type Report struct {
	Rules   int // that were checked
	Rows    int
	Origins int    // origin charges that were split
	Billed  string // sums over all rows, nine places or more
	Listed  string
	Effect  string
	// Of commitments: BilledCost of their purchases, and EffectiveCost of what used them or was unused. Over whole terms these are the same.
	Purchased string
	Committed string
	Findings  []Finding // one per broken rule, in the order of the rules
}

// OK says that no rule is broken.
func (r Report) OK() bool { return len(r.Findings) == 0 }

// Bounds of a check.
const (
	maxRows    = 50_000_000
	maxOrigins = 200_000 // whose rows do not add up yet: a file that keeps rows of a charge together holds one at a time
)

// Check reads a file and holds every rule against it. An error means that it is no file of charges at all, or too large to check.
func Check(file io.Reader) (Report, error) {
	in, err := NewReader(file)
	if err != nil {
		return Report{}, err
	}
	c := checker{report: Report{Rules: len(rules)}, found: map[int]*Finding{}, origins: map[string]*origin{}}
	v := view{}
	for _, n := range in.Columns() {
		if col, ok := byName[n]; ok {
			v.has[col] = true
		}
	}
	for i, r := range rules {
		if r.header != nil {
			c.note(i, 0, r.header(func(col Col) bool { return v.has[col] }, in.Columns()))
		}
	}
	var billed, listed, effect, purchased, committed big.Rat
	var before Row
	for {
		v.Row, err = in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Report{}, err
		}
		if c.report.Rows++; c.report.Rows > maxRows {
			return Report{}, fleet.Errorf(fleet.CodeTooLarge, "the file has more than %d rows", maxRows)
		}
		for col := range numCols {
			v.same[col] = c.report.Rows > 1 && len(c.found) == 0 && v.Row[col] == before[col]
		}
		before = v.Row
		for i, r := range rules {
			if r.row != nil && (!r.single || !v.same[r.only]) {
				c.note(i, in.Line(), r.row(&v))
			}
		}
		for sum, s := range map[*big.Rat]string{&billed: v.Row[BilledCost], &listed: v.Row[ListCost], &effect: v.Row[EffectiveCost]} {
			if n := number(s); n != nil {
				sum.Add(sum, n)
			}
		}
		if !v.null(CommitmentDiscountID) {
			sum, of := &committed, v.Row[EffectiveCost]
			if v.Row[ChargeCategory] == "Purchase" {
				sum, of = &purchased, v.Row[BilledCost]
			}
			if n := number(of); n != nil {
				sum.Add(sum, n)
			}
		}
		if err := c.split(&v, in.Line()); err != nil {
			return Report{}, err
		}
	}
	c.finish()
	c.report.Billed, c.report.Listed, c.report.Effect = billed.FloatString(9), listed.FloatString(9), effect.FloatString(9)
	c.report.Purchased, c.report.Committed = purchased.FloatString(9), committed.FloatString(9)
	for i := range rules {
		if f := c.found[i]; f != nil {
			c.report.Findings = append(c.report.Findings, *f)
		}
	}
	return c.report, nil
}

type checker struct {
	report  Report
	found   map[int]*Finding // by place of the rule
	origins map[string]*origin
	last    string // origin charge of the row before
}

func (c *checker) note(rule, line int, detail string) {
	if detail == "" {
		return
	}
	f := c.found[rule]
	if f == nil {
		f = &Finding{Rule: rules[rule], Line: line, Detail: detail}
		c.found[rule] = f
	}
	f.Count++
}

// split gathers the rows of an origin charge.
func (c *checker) split(v *view, line int) error {
	id := v.Row[XOriginChargeID]
	if o := c.origins[c.last]; id != c.last && o != nil && o.sound() {
		delete(c.origins, c.last) // should more of it come, it starts anew and fails
	}
	c.last = id
	if id == "" {
		return nil
	}
	o := c.origins[id]
	if o == nil {
		if len(c.origins) == maxOrigins {
			return fleet.Errorf(fleet.CodeTooLarge, "the rows of more than %d split charges do not add up, or lie apart; check the file in parts", maxOrigins)
		}
		c.report.Origins++
		o = &origin{line: line, first: v.Row, change: -1}
		c.origins[id] = o
	}
	o.add(v)
	return nil
}

// sound says that no rule about sums is broken.
func (o *origin) sound() bool {
	for _, r := range sumRules {
		if r.sums(o) != "" {
			return false
		}
	}
	return true
}

// finish holds the rules about sums against every origin charge, in the order of the file.
func (c *checker) finish() {
	for i, r := range rules {
		if r.sums == nil {
			continue
		}
		for _, o := range c.origins {
			if detail := r.sums(o); detail != "" {
				c.note(i, o.line, detail)
				if f := c.found[i]; o.line < f.Line {
					f.Line, f.Detail = o.line, detail
				}
			}
		}
	}
}
