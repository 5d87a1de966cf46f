package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Notice is a change of an alert's state, or a digest, for people.
type Notice struct {
	Event      string // alert.opened, alert.resolved, digest, test
	ID         string // of the event
	Alert      string // its id; empty: of none
	Kind       string
	Subject    string
	Severity   string // info, warning, critical
	At         time.Time
	OpenedAt   time.Time
	ResolvedAt *time.Time
	Detail     map[string]any
	// Link to the page that shows more; empty: none.
	Link string
	// Title and Lines replace what is made of Kind and Detail, for digests.
	Title string
	Lines []Line
}

// Line is a name with its value.
type Line struct{ Name, Value string }

// Language of texts.
type Language string

// Languages of texts.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// headlines by kind of alert: {name} is a value of the detail. What a detail lacks reads as a dash.
var headlines = map[string]map[Language]string{
	"budget_threshold":          {English: "Budget {name}: {percent} % reached, {figure} of {limit} {currency}", Chinese: "预算 {name}：已达 {percent} %，{figure} / {limit} {currency}"},
	"budget_threshold/forecast": {English: "Budget {name}: {percent} % expected by the end of the period, {figure} of {limit} {currency}", Chinese: "预算 {name}：预计期末达到 {percent} %，{figure} / {limit} {currency}"},
	"spend_breaker":             {English: "Spend breaker of budget {name} tripped: {rate_hour} {currency} an hour, usual is {usual_hour}. Scale-ups are frozen", Chinese: "预算 {name} 的支出熔断已触发：每小时 {rate_hour} {currency}，平常为 {usual_hour}。扩容已冻结"},
	"cost_anomaly":              {English: "Cost of {scope} {name} on {day}: {actual} {currency}, expected {expected}", Chinese: "{scope} {name} 在 {day} 的费用为 {actual} {currency}，预期 {expected}"},
	"agent_offline":             {English: "Cluster {cluster}: no report since {last_seen_at}", Chinese: "集群 {cluster}：自 {last_seen_at} 起没有上报"},
	"unknown_price":             {English: "Cluster {cluster}: machines without a price", Chinese: "集群 {cluster}：有机器没有价格"},
	"cloud_account_failing":     {English: "A cloud account cannot be read: {problem}", Chinese: "云账户无法读取：{problem}"},
	"price_quarantined":         {English: "Spot price of {instance_type} in {region} is not believed", Chinese: "{region} 的 {instance_type} 竞价价格不可信"},
	"stale_prices":              {English: "Spot prices in {region} are {age_hours} h old", Chinese: "{region} 的竞价价格已有 {age_hours} 小时未更新"},
	"conflict":                  {English: "{workload}: another controller writes the replicas", Chinese: "{workload}：另一个控制器在写副本数"},
	"group_conflict":            {English: "Cluster {cluster}: somebody else has undone the size of group {group} {times} times within an hour; Plimsoll leaves it alone", Chinese: "集群 {cluster}：一小时内有其他方 {times} 次撤销了组 {group} 的大小；Plimsoll 暂不再改动它"},
	"service_short":             {English: "Service {service}: {lacking} of {wanted} replicas not ready since {since}; {missing} of them no cluster may have: {where}", Chinese: "服务 {service}：自 {since} 起 {wanted} 个副本中有 {lacking} 个未就绪，其中 {missing} 个没有集群可容纳：{where}"},
	"service_silent":            {English: "Service {service}: cluster {cluster} has said nothing since {since}; its {replicas} replicas count neither as there nor as lacking", Chinese: "服务 {service}：集群 {cluster} 自 {since} 起没有消息；其 {replicas} 个副本既不计入已有，也不计入缺少"},
	"stuck_at_max":              {English: "{workload}: at its maximum of {max} replicas and needs more", Chinese: "{workload}：已到 {max} 个副本的上限，仍然不够"},
	"scale_failed":              {English: "{workload}: a change of replicas failed: {problem}", Chinese: "{workload}：副本数变更失败：{problem}"},
	"delivery_failed":           {English: "Channel {name} cannot be reached: {problem}", Chinese: "通道 {name} 无法送达：{problem}"},
	"pods_unschedulable":        {English: "Cluster {cluster}: {pods} pods wait for a machine, the oldest for {oldest_seconds} s", Chinese: "集群 {cluster}：{pods} 个 Pod 在等待机器，最久已等 {oldest_seconds} 秒"},
	"capacity_rollout":          {English: "Cluster {cluster}: a new capacity policy was taken back at step {step} of {steps}: {why}", Chinese: "集群 {cluster}：新的容量策略在第 {step} / {steps} 步被撤回：{why}"},
	"node_compliance":           {English: "Cluster {cluster}: {nodes} machines do not obey the capacity policy", Chinese: "集群 {cluster}：{nodes} 台机器不符合容量策略"},
	"held_by_budget":            {English: "{workload}: needs more replicas than its budget allows", Chinese: "{workload}：所需副本数超出预算允许"},
	"signals_missing":           {English: "{workload}: no fresh signal since {since}, so nothing is decided", Chinese: "{workload}：自 {since} 起没有新信号，暂停决策"},
	"slo_burn":                  {English: "{workload}: {late_percent} % of requests late in {window_minutes} min, {objective_percent} % allowed: {burn_rate} times the even pace", Chinese: "{workload}：{window_minutes} 分钟内 {late_percent} % 的请求迟到，允许 {objective_percent} %：为均匀速度的 {burn_rate} 倍"},
	"slo_burn_slow":             {English: "{workload}: {late_percent} % of requests late in {window_minutes} min, {objective_percent} % allowed: a month's allowance lasts {budget_days} days", Chinese: "{workload}：{window_minutes} 分钟内 {late_percent} % 的请求迟到，允许 {objective_percent} %：一个月的余量只够 {budget_days} 天"},
	"thrash":                    {English: "{workload}: {cycles} up-down-up cycles in an hour", Chinese: "{workload}：一小时内副本数来回 {cycles} 次"},
	"commitment_expiring":       {English: "Commitment {name} ({what}, {region}) ends in {days} days", Chinese: "承诺 {name}（{what}，{region}）将在 {days} 天后到期"},
	"spot_interruptions":        {English: "Spot in {region}: {lost} of {machines} machines taken back within {minutes} min", Chinese: "{region} 的竞价机器：{minutes} 分钟内 {machines} 台中有 {lost} 台被收回"},
	"scale_out_failing":         {English: "Cluster {cluster}: {failed} of {tried} attempts to get machines failed within {minutes} min", Chinese: "集群 {cluster}：{minutes} 分钟内 {tried} 次申请机器有 {failed} 次失败"},
	"clock_skew":                {English: "Cluster {cluster}: its clock is off by {skew_seconds} s", Chinese: "集群 {cluster}：时钟偏差 {skew_seconds} 秒"},
	"test":                      {English: "Test from Plimsoll", Chinese: "来自 Plimsoll 的测试"},
}

var words = map[Language]map[string]string{
	English: {"info": "Info", "warning": "Warning", "critical": "Critical", "resolved": "Resolved", "opened_at": "Since", "resolved_at": "Over at", "kind": "Kind", "open": "Open in Plimsoll"},
	Chinese: {"info": "提示", "warning": "警告", "critical": "严重", "resolved": "已恢复", "opened_at": "开始于", "resolved_at": "结束于", "kind": "类型", "open": "在 Plimsoll 中打开"},
}

// Headline is the notice in one sentence. A kind that has no words keeps its name.
func (n Notice) Headline(lang Language) string {
	if n.Title != "" {
		return n.Title
	}
	key := n.Kind
	if n.Event == "test" {
		key = "test"
	}
	if text(n.Detail["basis"]) == "forecast" {
		key += "/forecast"
	}
	pattern, ok := headlines[key]
	if !ok {
		return oneLine(n.Kind + ": " + n.Subject)
	}
	out := pattern[lang]
	for {
		from := strings.IndexByte(out, '{')
		to := strings.IndexByte(out, '}')
		if from < 0 || to < from {
			return oneLine(out)
		}
		value := strings.NewReplacer("{", "(", "}", ")").Replace(text(n.Detail[out[from+1:to]]))
		if value == "" {
			value = "–"
		}
		out = out[:from] + value + out[to+1:]
	}
}

// State is the notice's severity in words, or that it is over.
func (n Notice) State(lang Language) string {
	if n.Event == "alert.resolved" {
		return words[lang]["resolved"]
	}
	if w := words[lang][n.Severity]; w != "" {
		return w
	}
	return words[lang]["info"]
}

// Facts are the lines under the headline.
func (n Notice) Facts(lang Language) []Line {
	if n.Lines != nil {
		return n.Lines
	}
	var out []Line
	if n.Kind != "" {
		out = append(out, Line{words[lang]["kind"], n.Kind})
	}
	if !n.OpenedAt.IsZero() {
		out = append(out, Line{words[lang]["opened_at"], n.OpenedAt.UTC().Format("2006-01-02 15:04 MST")})
	}
	if n.ResolvedAt != nil {
		out = append(out, Line{words[lang]["resolved_at"], n.ResolvedAt.UTC().Format("2006-01-02 15:04 MST")})
	}
	keys := make([]string, 0, len(n.Detail))
	for k := range n.Detail {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	const most = 12
	for _, k := range keys {
		if v := text(n.Detail[k]); v != "" && !strings.HasSuffix(k, "_id") && len(out) < most {
			out = append(out, Line{strings.ReplaceAll(k, "_", " "), v})
		}
	}
	return out
}

// text of a plain value; empty for lists and objects.
func text(v any) string {
	const most = 300
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case float64, int, bool, json.Number:
		s = fmt.Sprint(v)
	}
	return oneLine(s[:min(len(s), most)])
}

// oneLine keeps a value from breaking out of its line.
func oneLine(s string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s), "")
}

// Slack makes the body of a Slack incoming webhook.
func (n Notice) Slack(lang Language) ([]byte, error) {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	type object = map[string]any
	mrkdwn := func(s string) object { return object{"type": "mrkdwn", "text": s} }
	head := "*" + escape(n.State(lang)) + "* · " + escape(n.Headline(lang))
	blocks := []object{{"type": "section", "text": mrkdwn(head)}}
	for facts := n.Facts(lang); len(facts) > 0; {
		const most = 10 // fields of a section
		part := facts[:min(len(facts), most)]
		facts = facts[len(part):]
		fields := make([]object, 0, len(part))
		for _, f := range part {
			fields = append(fields, mrkdwn("*"+escape(f.Name)+"*\n"+escape(f.Value)))
		}
		blocks = append(blocks, object{"type": "section", "fields": fields})
	}
	if n.Link != "" {
		blocks = append(blocks, object{"type": "context", "elements": []object{mrkdwn("<" + n.Link + "|" + escape(words[lang]["open"]) + ">")}})
	}
	return json.Marshal(object{"text": n.State(lang) + " · " + n.Headline(lang), "blocks": blocks})
}

// Teams makes the body of a Teams incoming webhook (a workflow that posts an Adaptive Card 1.4).
func (n Notice) Teams(lang Language) ([]byte, error) {
	type object = map[string]any
	colour := map[string]string{"critical": "Attention", "warning": "Warning"}[n.Severity]
	if colour == "" {
		colour = "Default"
	}
	if n.Event == "alert.resolved" {
		colour = "Good"
	}
	facts := make([]object, 0, 12)
	for _, f := range n.Facts(lang) {
		facts = append(facts, object{"title": f.Name, "value": f.Value})
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": []object{
		{"type": "TextBlock", "text": n.State(lang), "weight": "Bolder", "color": colour},
		{"type": "TextBlock", "text": n.Headline(lang), "wrap": true, "size": "Medium"},
		{"type": "FactSet", "facts": facts},
	}}
	if n.Link != "" {
		card["actions"] = []object{{"type": "Action.OpenUrl", "title": words[lang]["open"], "url": n.Link}}
	}
	return json.Marshal(object{"type": "message", "attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}}})
}

// Letter is a mail as it is kept in the delivery log.
type Letter struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Mail makes the letter.
func (n Notice) Mail(lang Language) Letter {
	var b strings.Builder
	b.WriteString(n.Headline(lang) + "\n\n")
	for _, f := range n.Facts(lang) {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	if n.Link != "" {
		b.WriteString("\n" + words[lang]["open"] + ": " + n.Link + "\n")
	}
	return Letter{Subject: "[Plimsoll] " + n.State(lang) + ": " + n.Headline(lang), Text: b.String()}
}
