package ledger

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
)

// Transfer moves an amount, always above zero, from the account that is credited to the one that is debited: the debit side
// bears it. A negative residual is a transfer the other way round, from residual to the machines.
type Transfer struct {
	ID     string // UUIDv5 of cluster, hour, version and accounts: posting twice posts once
	Debit  string // workload/<id>, namespace/<name>, idle, overhead, residual, commitment_unused, or nodes/<purchase>
	Credit string // nodes/<purchase>, commitment/<id>, or residual
	Row    Row    // what it pays for, summed over machines
	Amount fleet.Money
}

var transferSpace = uuid.MustParse("6f1f7c1e-3c0e-5d0a-9b0e-0d6a5f0b7a11")

// Transfers posts a statement as version of the hour that starts at from: one transfer per owner and resource, and one per commitment
// that is not used up. Rows without an amount move nothing.
func Transfers(cluster fleet.ClusterID, from time.Time, version int, s Statement) []Transfer {
	var transfers []Transfer
	post := func(r Row, credit string) {
		if r.Amount == 0 {
			return
		}
		t := Transfer{Debit: account(r), Credit: credit, Row: r, Amount: r.Amount}
		if r.Amount < 0 {
			t.Debit, t.Credit, t.Amount = t.Credit, t.Debit, -r.Amount
		}
		t.ID = uuid.NewSHA1(transferSpace, fmt.Appendf(nil, "%s\n%d\n%d\n%s\n%s\n%s\n%s\n%s\n%s", cluster, from.Unix(), version, credit, r.Kind, r.Resource, account(r),
			r.Owner.Namespace, r.Owner.Team)).String()
		transfers = append(transfers, t)
	}
	machines := Statement{Lines: make([]CostLine, 0, len(s.Lines))}
	for _, l := range s.Lines {
		if l.Kind == KindUnused {
			post(l.Row, "commitment/"+l.Node)
			continue
		}
		machines.Lines = append(machines.Lines, l)
	}
	for _, r := range machines.Rows() {
		post(r, "nodes/"+string(r.Purchase))
	}
	return transfers
}

func account(r Row) string {
	switch {
	case r.Kind != KindWorkload:
		return string(r.Kind)
	case r.Owner.Workload != "":
		return "workload/" + string(r.Owner.Workload)
	default:
		return "namespace/" + r.Owner.Namespace
	}
}
