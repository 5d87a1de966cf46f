// Package billing reads the bills of clouds and holds the ledger's estimates against them. It takes the rows of a file (FOCUS, AWS CUR, Azure
// cost export, Google billing export) and gives charges in one form, whose sums are the file's to the last place, or an error that names row
// and column and nothing else: no part of a bad file comes through. It is pure.
package billing

import (
	"time"

	"plimsoll.dev/services/fleet"
)

// Format of a file.
type Format string

// Formats that Read knows.
const (
	FormatFOCUS Format = "focus"      // FOCUS 1.0 to 1.3, CSV
	FormatAWS   Format = "aws_cur"    // Cost and Usage Report 2.0, and the slashed names of its predecessor, CSV
	FormatAzure Format = "azure"      // cost details, actual or amortised, CSV
	FormatGCP   Format = "gcp_detail" // detailed usage cost export, CSV or JSON lines
)

// Formats lists them all.
func Formats() []Format { return []Format{FormatFOCUS, FormatAWS, FormatAzure, FormatGCP} }

// Category of a charge, in the words of FOCUS.
type Category string

// Categories.
const (
	CategoryUsage      Category = "Usage"
	CategoryPurchase   Category = "Purchase"
	CategoryTax        Category = "Tax"
	CategoryCredit     Category = "Credit"
	CategoryAdjustment Category = "Adjustment"
)

// Kind says what a charge is for, as far as a comparison with the ledger needs it. Only KindMachine and KindUnused are in the ledger.
type Kind string

// Kinds of charges.
const (
	KindMachine  Kind = "machine"  // hours of a virtual machine, and discounts on them
	KindUnused   Kind = "unused"   // what nobody used of a commitment
	KindPurchase Kind = "purchase" // a commitment's price: its use is in other charges
	KindStorage  Kind = "storage"
	KindNetwork  Kind = "network" // traffic, addresses, gateways, load balancers
	KindSupport  Kind = "support"
	KindTax      Kind = "tax"
	KindCredit   Kind = "credit"
	KindOther    Kind = "other" // another service
)

// Statuses of charges under a commitment.
const (
	StatusUsed   = "Used"
	StatusUnused = "Unused"
)

// Dimensions are what tells charges apart. Empty is unknown.
type Dimensions struct {
	Provider           string
	Cloud              fleet.Cloud
	Account            string // that is billed
	SubAccount         string
	Category           Category
	Correction         bool
	Kind               Kind
	Service            string
	Region, Zone       string
	Resource           string // the provider's id
	ResourceName       string
	InstanceType       string
	Purchase           fleet.Purchase // of a machine; empty: not known
	Commitment, Status string
	SKU                string
	Unit               string    // of Quantity
	From, To           time.Time // UTC. A charge within one day has that whole day
	PeriodFrom         time.Time // billing period
	PeriodTo           time.Time // exclusive
	Invoice            string
}

// Charge is one row of a file. Nil is unknown.
type Charge struct {
	Dimensions
	Line        int
	Description string
	Billed      Amount
	Effective   *Amount
	List        *Amount
	Quantity    *Amount
	Hours       *Amount // of a machine
}

// Row is the charges of a file with the same dimensions.
type Row struct {
	Dimensions
	Lines       int // of the file
	FirstLine   int
	Description string // of the first
	Billed      Amount
	Effective   Amount // of those that say it
	List        Amount
	Quantity    Amount
	Hours       Amount
	NoEffective int // lines that do not say it
	NoList      int
	NoHours     int // of a machine
}

// Period is what a file holds of one billing period of an account.
type Period struct {
	Provider string    `json:"provider"`
	Account  string    `json:"account"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Lines    int       `json:"lines"`
	Billed   Amount    `json:"billed"`
}

// File is a bill that was read.
type File struct {
	Format   Format
	Hash     string // SHA-256 of the content, unzipped, in hexadecimal digits
	Bytes    int64  // unzipped
	Currency string
	From, To time.Time // of the charges
	Columns  int
	Unknown  []string // columns that nothing here reads, in the file's order
	Lines    int      // rows of the file
	Rounded  int      // values with more than 18 places, which were rounded to these
	Rows     []Row    // sorted
	Periods  []Period // sorted
	Billed   Amount   // sums over all lines
	Effect   Amount
	List     Amount
	// Lines that do not say these. Their amounts are missing in the sums.
	NoEffective int
	NoList      int
}
