package store

import (
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// rowSteps are the numbers of rows in one INSERT: few, so that few statements are prepared, and large enough that most rows travel
// in the largest. 256 rows of up to 40 columns stay below the protocol's 65,535 parameters.
var rowSteps = []int{256, 64, 16, 4, 1}

type rowStatement struct {
	head, tail string
	rows       int
}

var rowStatements sync.Map // rowStatement to string; as many entries as there are calls of queueRows in the source, times rowSteps

// queueRows adds multi-row inserts to a batch. COPY is refused under row-level security, and unnest is not pushed down by Citus.
func queueRows(b *pgx.Batch, head, tail string, rows [][]any) {
	for _, n := range rowSteps {
		for len(rows) >= n {
			args := make([]any, 0, n*len(rows[0]))
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			b.Queue(rowSQL(rowStatement{head, tail, n}, len(rows[0])), args...)
			rows = rows[n:]
		}
	}
}

func rowSQL(key rowStatement, columns int) string {
	if sql, ok := rowStatements.Load(key); ok {
		return sql.(string)
	}
	var b strings.Builder
	b.WriteString(key.head)
	b.WriteString(" VALUES ")
	for r := range key.rows {
		if r > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('(')
		for c := range columns {
			if c > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(r*columns + c + 1))
		}
		b.WriteByte(')')
	}
	b.WriteByte(' ')
	b.WriteString(key.tail)
	sql := b.String()
	rowStatements.Store(key, sql)
	return sql
}
