package ledger

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
)

// Transfer moves an amount, always above zero, from the account that is credited to the one that is debited: the debit side
// bears it. A negative residual is a transfer the other way round, from residual to the node.
type Transfer struct {
	ID     string // UUIDv5 of cluster, hour, version and line: posting twice posts once
	Debit  string // workload/<id>, namespace/<name>, idle, overhead, residual, commitment_unused, or node/<uid>
	Credit string // node/<uid>, commitment/<id>, or residual
	Line   CostLine
	Amount fleet.Money
}

var transferSpace = uuid.MustParse("6f1f7c1e-3c0e-5d0a-9b0e-0d6a5f0b7a11")

// Transfers posts a statement as version of the hour that starts at from. Lines without an amount move nothing.
func Transfers(cluster fleet.ClusterID, from time.Time, version int, s Statement) []Transfer {
	transfers := make([]Transfer, 0, len(s.Lines))
	for _, l := range s.Lines {
		if l.Amount == 0 {
			continue
		}
		t := Transfer{Debit: account(l.Row), Credit: "node/" + l.Node, Line: l, Amount: l.Amount}
		if l.Kind == KindUnused {
			t.Credit = "commitment/" + l.Node
		}
		if l.Amount < 0 {
			t.Debit, t.Credit, t.Amount = t.Credit, t.Debit, -l.Amount
		}
		t.ID = uuid.NewSHA1(transferSpace, fmt.Appendf(nil, "%s\n%d\n%d\n%s\n%s\n%s\n%s\n%s", cluster, from.Unix(), version, l.Node, l.Kind,
			l.Resource, account(l.Row), l.Owner.Team)).String()
		transfers = append(transfers, t)
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
