package httpapi

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
)

// StatementFile is how a statement is written. Exported because huma passes over embedded types that are not.
type StatementFile struct {
	Format   string `query:"format" enum:"html,pdf,csv" default:"html"`
	Language string `query:"language" enum:"en,zh" default:"en"`
}

type fileAnswer struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Policy      string `header:"Content-Security-Policy"`
	Body        []byte
}

func (s *Server) downloadDraft(ctx context.Context, p auth.Principal, in *struct {
	StatementQuery
	StatementFile
}) (*fileAnswer, error) {
	v, err := s.draft(ctx, p, in.StatementQuery)
	if err != nil {
		return nil, err
	}
	return writeStatement(v, in.StatementFile)
}

func (s *Server) downloadStatement(ctx context.Context, p auth.Principal, in *struct {
	ID string `path:"id" format:"uuid"`
	StatementFile
}) (*fileAnswer, error) {
	v, err := s.issued(ctx, p, in.ID)
	if err != nil {
		return nil, err
	}
	return writeStatement(v, in.StatementFile)
}

func writeStatement(v Statement, f StatementFile) (*fileAnswer, error) {
	d := v.Document
	words := statementWords[f.Language]
	name := "statement-" + d.Month + "-" + fileWord(d.Scope, d.Team) + "-" + v.Kind
	if v.Version > 0 {
		name += "-v" + strconv.Itoa(v.Version)
	}
	out := &fileAnswer{Disposition: fmt.Sprintf(`inline; filename="%s.%s"`, name, f.Format), Policy: "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
	var err error
	switch f.Format {
	case "csv":
		out.ContentType = "text/csv; charset=utf-8"
		out.Disposition = "attachment" + strings.TrimPrefix(out.Disposition, "inline")
		out.Body, err = statementCSV(v)
	case "pdf":
		out.ContentType = "application/pdf"
		out.Disposition = "attachment" + strings.TrimPrefix(out.Disposition, "inline")
		out.Body = statementPDF(v, words)
	default:
		out.ContentType = "text/html; charset=utf-8"
		out.Body, err = statementHTML(v, words, f.Language)
	}
	return out, err
}

// fileWord is a name that every file system takes.
func fileWord(scope, team string) string {
	if scope == "tenant" {
		return "all"
	}
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, team)
	if word == "" {
		return "no-team"
	}
	return word[:min(len(word), 60)]
}

// statementText are the words of a statement.
type statementText struct {
	Title, Draft, Showback, Chargeback, All, NoTeam, Month, Span, AsOf, Version, IssuedBy, Line, Namespace, Hours, CPU, Memory, GPU, Amount, Total string
	Kinds                                                                                                                                          map[string]string
	Missing, Restated, Changed, Unpriced, Idle, Rules, Exact                                                                                       string
}

var statementWords = map[string]statementText{
	"en": {Title: "Cost statement", Draft: "Draft", Showback: "Showback", Chargeback: "Chargeback", All: "All teams", NoTeam: "Without a team", Month: "Month", Span: "Hours", AsOf: "Ledger as of", Version: "Version", IssuedBy: "Issued by",
		Line: "Item", Namespace: "Namespace", Hours: "GPU-hours", CPU: "CPU", Memory: "Memory", GPU: "GPU", Amount: "Amount", Total: "Total",
		Kinds: map[string]string{"bare_pods": "Pods without a controller", "idle": "Idle capacity", "shared": "Shared cost", "unshared": "Shared cost that nobody could carry", "overhead": "Machines before they were ready", "residual": "Residual of contradicting inputs",
			"commitment_unused": "Unused commitments", "others": "Further workloads"},
		Missing:  "%d hours of this month were still provisional and are not in this statement.",
		Restated: "%d hours in it had been restated when it was made.",
		Changed:  "The ledger was restated since: the month comes to %s now, %s against this statement.",
		Unpriced: "%.2f %% of machine time had no known price and is in no amount.",
		Idle:     "Idle capacity: %s, %s.", Rules: "Shared costs: %s.", Exact: "Amounts are exact to 0.000000001; the lines add up to the total."},
	"zh": {Title: "成本对账单", Draft: "草稿", Showback: "成本展示", Chargeback: "成本结算", All: "全部团队", NoTeam: "无团队", Month: "月份", Span: "时间范围", AsOf: "账本时点", Version: "版本", IssuedBy: "签发人",
		Line: "项目", Namespace: "命名空间", Hours: "GPU 小时", CPU: "CPU", Memory: "内存", GPU: "GPU", Amount: "金额", Total: "合计",
		Kinds:    map[string]string{"bare_pods": "无控制器的 Pod", "idle": "闲置容量", "shared": "分摊成本", "unshared": "无人承担的分摊成本", "overhead": "就绪前的机器", "residual": "输入矛盾的残差", "commitment_unused": "未使用的承诺", "others": "其他工作负载"},
		Missing:  "本月有 %d 个小时仍为暂定，未计入本对账单。",
		Restated: "其中 %d 个小时在生成前已被重述。",
		Changed:  "此后账本被重述：本月现为 %s，与本对账单相差 %s。",
		Unpriced: "%.2f %% 的机器时间没有已知价格，未计入任何金额。",
		Idle:     "闲置容量：%s，%s。", Rules: "分摊成本：%s。", Exact: "金额精确到 0.000000001；各行之和等于合计。"},
}

// printed is a statement with everything as text: what HTML and PDF show alike.
type printed struct {
	Words          statementText
	Language       string
	Title, Subject string
	Facts          [][2]string
	Rows           []printedRow
	Currency       string
	Total          string
	Notes          []string
}

type printedRow struct{ Name, Namespace, Hours, CPU, Memory, GPU, Amount string }

func printStatement(v Statement, w statementText, language string) printed {
	d := v.Document
	p := printed{Words: w, Language: language, Title: map[string]string{"draft": w.Title + " · " + w.Draft, "showback": w.Title + " · " + w.Showback, "chargeback": w.Title + " · " + w.Chargeback}[v.Kind], Currency: d.Total.Currency, Total: d.Total.Amount}
	p.Subject = d.Tenant + " · " + teamWord(d.Team, w)
	if d.Scope == "tenant" {
		p.Subject = d.Tenant + " · " + w.All
	}
	zone, err := time.LoadLocation(d.TimeZone)
	if err != nil {
		zone = time.UTC
	}
	const minute = "2006-01-02 15:04"
	p.Facts = [][2]string{{w.Month, d.Month}, {w.Span, d.From.In(zone).Format(minute) + " – " + d.To.In(zone).Format(minute) + " (" + d.TimeZone + ")"}, {w.AsOf, d.AsOf.UTC().Format("2006-01-02 15:04:05 UTC")}}
	if v.Version > 0 {
		p.Facts = append(p.Facts, [2]string{w.Version, strconv.Itoa(v.Version)}, [2]string{w.IssuedBy, v.IssuedBy})
	}
	for _, l := range d.Lines {
		r := printedRow{Name: l.Name, Namespace: l.Namespace, CPU: amountOf(l.CPU), Memory: amountOf(l.Memory), GPU: amountOf(l.GPU), Amount: l.Amount.Amount}
		if word, ok := w.Kinds[l.Kind]; ok {
			r.Name = strings.TrimSuffix(word+": "+l.Name, ": ")
		}
		if l.Kind == "team" {
			r.Name = teamWord(l.Name, w)
		}
		if l.GPUHours > 0 {
			r.Hours = strconv.FormatFloat(l.GPUHours, 'f', 2, 64)
		}
		p.Rows = append(p.Rows, r)
	}
	p.Notes = statementNotes(v, w)
	return p
}

func statementNotes(v Statement, w statementText) []string {
	d := v.Document
	notes := []string{w.Exact, fmt.Sprintf(w.Idle, d.IdleScope, d.IdleSpread)}
	if len(d.Rules) > 0 {
		notes = append(notes, fmt.Sprintf(w.Rules, strings.Join(d.Rules, "; ")))
	}
	if d.MissingHours > 0 {
		notes = append(notes, fmt.Sprintf(w.Missing, d.MissingHours))
	}
	if d.RestatedHours > 0 {
		notes = append(notes, fmt.Sprintf(w.Restated, d.RestatedHours))
	}
	if d.UnpricedShare != nil && *d.UnpricedShare > 0 {
		notes = append(notes, fmt.Sprintf(w.Unpriced, *d.UnpricedShare*100))
	}
	if v.Restated != nil && !isZero(*v.Restated) {
		notes = append(notes, fmt.Sprintf(w.Changed, v.NowTotal.Amount+" "+v.NowTotal.Currency, v.Restated.Amount+" "+v.Restated.Currency))
	}
	return notes
}

func isZero(m Money) bool {
	v, err := fleet.ParseMoney(m.Amount)
	return err == nil && v == 0
}

func teamWord(team string, w statementText) string {
	if team == "" {
		return w.NoTeam
	}
	return team
}

func amountOf(m *Money) string {
	if m == nil {
		return ""
	}
	return m.Amount
}

// statementPage loads nothing from elsewhere and prints on A4.
var statementPage = template.Must(template.New("statement").Parse(`<!doctype html>
<html lang="{{.Language}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}} · {{.Subject}}</title>
<style>
@page { size: A4; margin: 16mm 14mm; }
body { font: 14px/1.45 system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif; color: #16202b; max-width: 980px; margin: 32px auto; padding: 0 20px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 16px; font-weight: 500; color: #4a5866; margin: 2px 0 18px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; margin: 0 0 22px; } dt { color: #4a5866; } dd { margin: 0; }
table { border-collapse: collapse; width: 100%; } th, td { padding: 5px 8px; border-bottom: 1px solid #dbe1e7; text-align: left; overflow-wrap: anywhere; }
th { border-bottom: 2px solid #16202b; font-weight: 600; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead { display: table-header-group; } tr { break-inside: avoid; } tfoot td { border-top: 2px solid #16202b; border-bottom: 0; font-weight: 650; }
ul { color: #4a5866; padding-left: 18px; margin-top: 20px; }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 9.5pt; } }
</style></head><body>
<h1>{{.Title}}</h1><h2>{{.Subject}}</h2>
<dl>{{range .Facts}}<dt>{{index . 0}}</dt><dd>{{index . 1}}</dd>{{end}}</dl>
<table><thead><tr><th>{{.Words.Line}}</th><th>{{.Words.Namespace}}</th><th class="n">{{.Words.Hours}}</th><th class="n">{{.Words.GPU}}</th><th class="n">{{.Words.CPU}}</th><th class="n">{{.Words.Memory}}</th><th class="n">{{.Words.Amount}} ({{.Currency}})</th></tr></thead>
<tbody>{{range .Rows}}<tr><td>{{.Name}}</td><td>{{.Namespace}}</td><td class="n">{{.Hours}}</td><td class="n">{{.GPU}}</td><td class="n">{{.CPU}}</td><td class="n">{{.Memory}}</td><td class="n">{{.Amount}}</td></tr>
{{end}}</tbody><tfoot><tr><td colspan="6">{{.Words.Total}}</td><td class="n">{{.Total}}</td></tr></tfoot></table>
<ul>{{range .Notes}}<li>{{.}}</li>{{end}}</ul>
</body></html>
`))

func statementHTML(v Statement, w statementText, language string) ([]byte, error) {
	var out bytes.Buffer
	if err := statementPage.Execute(&out, printStatement(v, w, language)); err != nil {
		return nil, fmt.Errorf("write statement: %w", err)
	}
	return out.Bytes(), nil
}

func statementCSV(v Statement) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	d := v.Document
	rows := [][]string{{"month", "scope", "team", "statement", "version", "as_of", "kind", "name", "namespace", "gpu_hours", "core_hours", "gib_hours", "gpu", "cpu", "memory", "amount", "currency"}}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	for _, l := range d.Lines {
		rows = append(rows, []string{d.Month, d.Scope, harmless(d.Team), v.Kind, strconv.Itoa(v.Version), d.AsOf.UTC().Format(time.RFC3339Nano), l.Kind, harmless(l.Name), harmless(l.Namespace), number(l.GPUHours), number(l.CoreHours), number(l.GiBHours),
			amountOf(l.GPU), amountOf(l.CPU), amountOf(l.Memory), l.Amount.Amount, l.Amount.Currency})
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write statement: %w", err)
	}
	return out.Bytes(), nil
}

// harmless keeps spreadsheets from taking a name for a formula.
func harmless(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
