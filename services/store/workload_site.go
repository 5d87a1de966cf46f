package store

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/spread"
)

// LabelService on a workload makes it one of the service of that name, once somebody declared the service.
const LabelService = "plimsoll.dev/service"

// ModeOff is a service that is not planned.
const ModeOff fleet.Mode = "off"

const (
	maxServices = 500 // of one tenant
	// ServiceSilent is how old a cluster's last word may be until what it has is not known any more.
	ServiceSilent = 2 * time.Minute
	// serviceBoundValid is for how long a bound holds after the plan that set it: a service that is planned no more bounds nobody.
	serviceBoundValid = 15 * time.Minute
)

// Service is a service that runs as one workload in each of several clusters.
type Service struct {
	ID        string
	Name      string
	Mode      fleet.Mode // off, recommend, enforce
	Rules     spread.Rules
	Version   int
	Memory    spread.Memory
	CheckedAt *time.Time
	UpdatedBy string
	UpdatedAt time.Time
	Sites     []ServiceSite
}

// ServiceSite is one of its workloads.
type ServiceSite struct {
	Workload    fleet.WorkloadID
	Key         string
	Cluster     fleet.ClusterID
	ClusterName string
	Rules       spread.SiteRules
	Labelled    bool // it is there by its label alone
	Twice       bool // another workload of this cluster counts instead
	Gone        bool
}

var serviceName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// validate refuses what has no meaning.
func (s *Service) validate() error {
	bad := func(field, text string) error {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: text, Field: "body." + field}
	}
	if !serviceName.MatchString(s.Name) {
		return bad("name", "a service's name is a label value such as chat")
	}
	switch s.Mode {
	case ModeOff, fleet.ModeRecommend, fleet.ModeEnforce:
	default:
		return bad("mode", "mode is off, recommend or enforce")
	}
	if err := s.Rules.Validate(); err != nil {
		return err
	}
	if len(s.Sites) > spread.MaxSites {
		return bad("sites", fmt.Sprintf("at most %d clusters", spread.MaxSites))
	}
	shares, seen := int64(0), map[fleet.WorkloadID]bool{}
	for _, x := range s.Sites {
		if err := x.Rules.Validate(); err != nil {
			return err
		}
		if uuid.Validate(string(x.Workload)) != nil || seen[x.Workload] {
			return bad("sites", "a workload is named by its id, and once")
		}
		seen[x.Workload] = true
		shares += x.Rules.MinShareMilli
	}
	if shares > 1000 {
		return bad("sites", "the least shares add up to more than everything")
	}
	return nil
}

// SaveService writes a service if s.Version is the one that stands, 0 for a new one, and returns its id. Workloads that are not there, of one cluster twice, or
// of another service are refused. Outside enforce its plans bound nobody from now on.
func SaveService(ctx context.Context, tx *Tx, s Service, by string) (string, error) {
	if err := s.validate(); err != nil {
		return "", err
	}
	rules, err := json.Marshal(s.Rules)
	if err != nil {
		return "", fmt.Errorf("encode rules: %w", err)
	}
	if s.Version == 0 {
		if err := roomForService(ctx, tx); err != nil {
			return "", err
		}
		s.ID = uuid.Must(uuid.NewV7()).String()
		_, err = tx.pgx.Exec(ctx, `INSERT INTO service (tenant_id, id, name, mode, rules, version, updated_by, updated_at) VALUES ($1, $2, $3, $4, $5, 1, $6, $7)`,
			tx.Tenant, s.ID, s.Name, s.Mode, rules, by, tx.Now)
	} else {
		tag, e := tx.pgx.Exec(ctx, `UPDATE service SET name = $3, mode = $4, rules = $5, version = version + 1, checked_at = NULL, updated_by = $6, updated_at = $7
WHERE tenant_id = $1 AND id = $2 AND version = $8`, tx.Tenant, s.ID, s.Name, s.Mode, rules, by, tx.Now, s.Version)
		if err = e; err == nil && tag.RowsAffected() == 0 {
			if _, err := ServiceByID(ctx, tx, s.ID); err != nil {
				return "", err
			}
			return "", fleet.Errorf(fleet.CodeConflict, "the service was changed meanwhile: load it again")
		}
	}
	if violates(err, "service_name_key") {
		return "", &fleet.Error{Code: fleet.CodeConflict, Message: "there is a service of this name", Field: "body.name"}
	}
	if err != nil {
		return "", fmt.Errorf("save service: %w", err)
	}
	return s.ID, saveSites(ctx, tx, &s)
}

// roomForService refuses more services than a tenant may have.
func roomForService(ctx context.Context, tx *Tx) error {
	var n int
	if err := tx.pgx.QueryRow(ctx, `SELECT count(*)::int FROM service WHERE tenant_id = $1`, tx.Tenant).Scan(&n); err != nil {
		return fmt.Errorf("count services: %w", err)
	}
	if n >= maxServices {
		return fleet.Errorf(fleet.CodeTooLarge, "at most %d services", maxServices)
	}
	return nil
}

func saveSites(ctx context.Context, tx *Tx, s *Service) error {
	ids, docs := []string{}, []string{}
	for _, x := range s.Sites {
		doc, err := json.Marshal(x.Rules)
		if err != nil {
			return fmt.Errorf("encode rules: %w", err)
		}
		ids, docs = append(ids, string(x.Workload)), append(docs, string(doc))
	}
	var there, clusters int
	if err := tx.pgx.QueryRow(ctx, `SELECT count(*)::int, count(DISTINCT cluster_id)::int FROM workload WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`, tx.Tenant, ids).Scan(&there, &clusters); err != nil {
		return fmt.Errorf("look for workloads: %w", err)
	}
	switch {
	case there < len(ids):
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "a workload of the service is not there", Field: "body.sites"}
	case clusters < len(ids):
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "a service has one workload per cluster", Field: "body.sites"}
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM service_site WHERE tenant_id = $1 AND service_id = $2`, tx.Tenant, s.ID)
	b.Queue(`INSERT INTO service_site (tenant_id, service_id, workload_id, rules) SELECT $1, $2, w, r::jsonb FROM unnest($3::uuid[], $4::text[]) AS u(w, r)`, tx.Tenant, s.ID, ids, docs)
	if s.Mode != fleet.ModeEnforce {
		b.Queue(`DELETE FROM service_bound WHERE tenant_id = $1 AND service_id = $2`, tx.Tenant, s.ID)
	}
	err := tx.pgx.SendBatch(ctx, b).Close()
	if violates(err, "service_site_workload") {
		return &fleet.Error{Code: fleet.CodeConflict, Message: "a workload is of another service already", Field: "body.sites"}
	}
	if err != nil {
		return fmt.Errorf("save sites: %w", err)
	}
	return nil
}

// DeleteService forgets a service: its workloads go by their own policies again.
func DeleteService(ctx context.Context, tx *Tx, id string) error {
	tag, err := tx.pgx.Exec(ctx, `DELETE FROM service WHERE tenant_id = $1 AND id = $2`, tx.Tenant, id)
	if err != nil {
		return fmt.Errorf("delete service: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "service not found")
	}
	return nil
}

const serviceColumns = `id::text, name, mode, rules, version, memory, checked_at, updated_by, updated_at`

func scanService(row pgx.CollectableRow) (s Service, err error) {
	var rules, memory []byte
	if err = row.Scan(&s.ID, &s.Name, &s.Mode, &rules, &s.Version, &memory, &s.CheckedAt, &s.UpdatedBy, &s.UpdatedAt); err != nil {
		return s, err
	}
	if err = json.Unmarshal(rules, &s.Rules); err != nil {
		return s, err
	}
	return s, json.Unmarshal(memory, &s.Memory)
}

// Services lists all of the tenant, by name, with their workloads.
func Services(ctx context.Context, tx *Tx) ([]Service, error) {
	return services(ctx, tx, `true`, "")
}

// ServiceByID reads one.
func ServiceByID(ctx context.Context, tx *Tx, id string) (Service, error) {
	list, err := services(ctx, tx, `id = $2::uuid`, id)
	if err != nil {
		return Service{}, err
	}
	if len(list) == 0 {
		return Service{}, fleet.Errorf(fleet.CodeNotFound, "service not found")
	}
	return list[0], nil
}

func services(ctx context.Context, tx *Tx, where, id string) ([]Service, error) {
	args := []any{tx.Tenant}
	if id != "" {
		args = append(args, id)
	}
	rows, err := tx.pgx.Query(ctx, `SELECT `+serviceColumns+` FROM service WHERE tenant_id = $1 AND `+where+` ORDER BY name`, args...)
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanService)
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	at := map[string]*Service{}
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	rows, err = tx.pgx.Query(ctx, `
SELECT s.id::text, w.id::text, w.key, w.cluster_id::text, c.name, coalesce(n.rules, '{}'), n.workload_id IS NULL, w.gone_at IS NOT NULL
FROM service s
JOIN workload w ON w.tenant_id = s.tenant_id AND (w.id IN (SELECT workload_id FROM service_site x WHERE x.tenant_id = s.tenant_id AND x.service_id = s.id)
  OR w.labels ->> $2 = s.name AND w.gone_at IS NULL AND NOT EXISTS (SELECT FROM service_site x WHERE x.tenant_id = w.tenant_id AND x.workload_id = w.id))
JOIN cluster c ON c.tenant_id = w.tenant_id AND c.id = w.cluster_id
LEFT JOIN service_site n ON n.tenant_id = s.tenant_id AND n.service_id = s.id AND n.workload_id = w.id
WHERE s.tenant_id = $1 AND ($3 = '' OR s.id = nullif($3, '')::uuid)
ORDER BY s.name, c.name, c.id, n.workload_id IS NULL, w.key LIMIT 20000`, tx.Tenant, LabelService, id)
	if err != nil {
		return nil, fmt.Errorf("list sites: %w", err)
	}
	var of string
	var x ServiceSite
	var rules []byte
	_, err = pgx.ForEachRow(rows, []any{&of, &x.Workload, &x.Key, &x.Cluster, &x.ClusterName, &rules, &x.Labelled, &x.Gone}, func() error {
		s := at[of]
		if s == nil {
			return nil
		}
		site := x
		if err := json.Unmarshal(rules, &site.Rules); err != nil {
			return err
		}
		n := len(s.Sites)
		site.Twice = n > 0 && s.Sites[n-1].Cluster == site.Cluster
		s.Sites = append(s.Sites, site)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sites: %w", err)
	}
	return list, nil
}

// LabelledService is a name that workloads of several clusters have as a label, and that nobody declared.
type LabelledService struct {
	Name     string
	Clusters int
}

// LabelledServices lists them, at most 50.
func LabelledServices(ctx context.Context, tx *Tx) ([]LabelledService, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT w.labels ->> $2, count(DISTINCT w.cluster_id)::int FROM workload w
WHERE w.tenant_id = $1 AND w.gone_at IS NULL AND w.labels ? $2 AND NOT EXISTS (SELECT FROM service s WHERE s.tenant_id = w.tenant_id AND s.name = w.labels ->> $2)
GROUP BY 1 HAVING count(DISTINCT w.cluster_id) > 1 ORDER BY 1 LIMIT 50`, tx.Tenant, LabelService)
	if err != nil {
		return nil, fmt.Errorf("list labels: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LabelledService])
	if err != nil {
		return nil, fmt.Errorf("list labels: %w", err)
	}
	return list, nil
}
