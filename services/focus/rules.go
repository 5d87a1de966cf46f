package focus

import (
	"slices"
	"strings"
)

// Rule is one thing that a file must keep.
type Rule struct {
	ID     string
	Source string // version of FOCUS, or Plimsoll for rules about our own columns
	Text   string
	// One of these: about the header, about each row, or about all rows together.
	header func(has func(Col) bool, names []string) string
	row    func(*view) string
	only   Col // the one column that row looks at, if single is set: the same value again needs no second look
	single bool
	sums   func(*origin) string
}

// view is a row with what is known of its file.
type view struct {
	Row
	same  [numCols]bool // the value is that of the row before, in which no rule was broken
	split details
	read  string // what split was read from
	ok    bool
	has   [numCols]bool // columns of the file
}

// null says that a row has no value; a column that the file lacks has none either.
func (v *view) null(c Col) bool { return v.Row[c] == "" }

// charge says whether the row is a usage or purchase that corrects nothing, of which FOCUS demands prices and quantities.
func (v *view) charge() bool {
	return (v.Row[ChargeCategory] == "Usage" || v.Row[ChargeCategory] == "Purchase") && v.Row[ChargeClass] != "Correction"
}

// details reads AllocatedMethodDetails once a row.
func (v *view) details() (details, bool) {
	if s := v.Row[AllocatedMethodDetails]; s != v.read || s == "" {
		v.read = s
		v.split, v.ok = readDetails(s)
	}
	return v.split, v.ok
}

func (v *view) unused() bool {
	return v.Row[CommitmentDiscountStatus] == "Unused" || v.Row[CapacityReservationStatus] == "Unused"
}

// Rules lists every rule, by column and then across columns.
func Rules() []Rule { return slices.Clone(rules) }

var rules = slices.Concat(columnRules(), nameRules, pairRules(), priceRules, commitmentRules, timeRules, splitRules, sumRules)

// columnRules make the rules that every column has by its kind.
func columnRules() (list []Rule) {
	for c := range numCols {
		d := columns[c]
		source := "FOCUS " + d.version
		if d.version == "" {
			source = "Plimsoll"
		}
		add := func(id, text string, row func(*view) string) {
			list = append(list, Rule{ID: d.name + "." + id, Source: source, Text: d.name + " " + text, row: row, only: c, single: true})
		}
		if d.must {
			list = append(list, Rule{ID: d.name + ".present", Source: source, Text: d.name + " is in every file", header: func(has func(Col) bool, _ []string) string {
				if !has(c) {
					return "the file has no such column"
				}
				return ""
			}})
		}
		if d.notNull {
			add("not_null", "has a value in every row", func(v *view) string {
				if v.has[c] && v.null(c) {
					return "is null"
				}
				return ""
			})
		}
		if d.values != nil {
			add("values", "is one of "+strings.Join(d.values, ", "), func(v *view) string {
				if !v.null(c) && !slices.Contains(d.values, v.Row[c]) {
					return quoted(v.Row[c])
				}
				return ""
			})
		}
		if f := formats[d.kind]; f.ok != nil {
			add("format", f.text, func(v *view) string {
				if !v.null(c) && !f.ok(v.Row[c]) {
					return quoted(v.Row[c])
				}
				return ""
			})
		}
	}
	return list
}

// nameRules are about the header and about text.
var nameRules = []Rule{
	{ID: "columns.custom_prefix", Source: "FOCUS 1.2", Text: "columns that FOCUS does not define start with x_", header: func(_ func(Col) bool, names []string) string {
		for _, n := range names {
			if _, ok := byName[n]; !ok && !strings.HasPrefix(n, "x_") && !laterColumns[n] {
				return n
			}
		}
		return ""
	}},
	{ID: "columns.pascal_case", Source: "FOCUS 1.2", Text: "names of columns are Pascal case, letters and digits only", header: func(_ func(Col) bool, names []string) string {
		for _, n := range names {
			bare := strings.TrimPrefix(n, "x_")
			if bare == "" || bare[0] < 'A' || bare[0] > 'Z' || strings.ContainsFunc(bare, func(r rune) bool { return !alphanumeric(r) }) {
				return n
			}
		}
		return ""
	}},
	{ID: "columns.order", Source: "FOCUS 1.2", Text: "custom columns come after those of FOCUS", header: func(_ func(Col) bool, names []string) string {
		custom := ""
		for _, n := range names {
			if strings.HasPrefix(n, "x_") {
				custom = n
			} else if custom != "" {
				return n + " follows " + custom
			}
		}
		return ""
	}},
	{ID: "strings.trimmed", Source: "FOCUS 1.2", Text: "text has no blanks at its ends and no control characters", row: func(v *view) string {
		for c, s := range v.Row {
			if s != "" && !v.same[c] && (strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })) {
				return Col(c).String() + " " + quoted(s)
			}
		}
		return ""
	}},
	{ID: "nulls.no_placeholder", Source: "FOCUS 1.2", Text: "an unknown value is null, not a word for it", row: func(v *view) string {
		for c, s := range v.Row {
			if s != "" && !v.same[c] && columns[c].kind == kindString && slices.Contains(placeholders, strings.ToLower(s)) {
				return Col(c).String() + " " + quoted(s)
			}
		}
		return ""
	}},
}

var placeholders = []string{"null", "none", "n/a", "na", "nil", "not applicable", "unknown", "undefined", "-"}

// laterColumns are of FOCUS 1.3 and not written by us.
var laterColumns = map[string]bool{"ContractApplied": true}

// pair is a column that is null when another is, and has a value when that has one.
type pair struct {
	id            string
	source        string
	column, other Col
	back          bool // and the other way round
}

func pairRules() (list []Rule) {
	for _, p := range []pair{
		{"name_of_id", "FOCUS 1.2", RegionName, RegionID, true},
		{"null_without_id", "FOCUS 1.2", ResourceName, ResourceID, false},
		{"type_of_id", "FOCUS 1.2", ResourceType, ResourceID, true},
		{"name_of_id", "FOCUS 1.2", SubAccountName, SubAccountID, true},
		{"type_of_id", "FOCUS 1.2", SubAccountType, SubAccountID, true},
		{"type_of_id", "FOCUS 1.2", BillingAccountType, BillingAccountID, true},
		{"unit_of_quantity", "FOCUS 1.2", PricingUnit, PricingQuantity, true},
		{"unit_of_quantity", "FOCUS 1.2", ConsumedUnit, ConsumedQuantity, true},
		{"unit_of_quantity", "FOCUS 1.2", CommitmentDiscountUnit, CommitmentDiscountQuantity, true},
		{"category_of_id", "FOCUS 1.2", CommitmentDiscountCategory, CommitmentDiscountID, true},
		{"type_of_id", "FOCUS 1.2", CommitmentDiscountType, CommitmentDiscountID, true},
		{"null_without_id", "FOCUS 1.2", CommitmentDiscountName, CommitmentDiscountID, false},
		{"null_without_id", "FOCUS 1.2", CommitmentDiscountStatus, CommitmentDiscountID, false},
		{"null_without_id", "FOCUS 1.2", CommitmentDiscountQuantity, CommitmentDiscountID, false},
		{"null_without_id", "FOCUS 1.2", CapacityReservationStatus, CapacityReservationID, false},
		{"null_without_price", "FOCUS 1.2", SkuPriceDetails, SkuPriceID, false},
		{"null_without_sku", "FOCUS 1.2", SkuPriceID, SkuID, false},
		{"null_without_sku", "FOCUS 1.2", SkuMeter, SkuID, false},
		{"with_method", "FOCUS 1.3", AllocatedMethodDetails, AllocatedMethodID, true},
		{"with_method", "FOCUS 1.3", AllocatedResourceID, AllocatedMethodID, true},
		{"null_without_id", "FOCUS 1.3", AllocatedResourceName, AllocatedResourceID, false},
		{"with_method", "FOCUS 1.3", AllocatedTags, AllocatedMethodID, false},
		{"with_method", "Plimsoll", XOriginChargeID, AllocatedMethodID, true},
	} {
		text := p.column.String() + " is null where " + p.other.String() + " is"
		if p.back {
			text += ", and only there"
		}
		list = append(list, Rule{ID: p.column.String() + "." + p.id, Source: p.source, Text: text, row: func(v *view) string {
			switch {
			case !v.has[p.column]:
			case v.null(p.other) && !v.null(p.column):
				return p.other.String() + " is null"
			case p.back && v.has[p.other] && !v.null(p.other) && v.null(p.column):
				return "is null beside " + p.other.String()
			}
			return ""
		}})
	}
	return list
}
