package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"plimsoll.dev/services/fleet"
)

// Tenant is a customer: the border of all isolation.
type Tenant struct {
	ID        fleet.TenantID
	Name      string
	Currency  string // ISO 4217
	TimeZone  string // IANA
	CreatedAt time.Time
}

// User is a person's account. It may belong to several tenants.
type User struct {
	ID           fleet.UserID
	Email        string // lower case
	DisplayName  string
	PasswordHash string // argon2id PHC string; empty: cannot sign in with a password
	Disabled     bool
	CreatedAt    time.Time
}

// Member is a user in a tenant.
type Member struct {
	User     User
	Role     string // see auth.Role
	JoinedAt time.Time
}

// NewTenant is what CreateTenant needs.
type NewTenant struct {
	Name     string
	Currency string // default USD
	TimeZone string // default UTC
	Owner    NewUser
}

// NewUser is an account to be made; PasswordHash may be empty.
type NewUser struct {
	Email        string
	DisplayName  string
	PasswordHash string
}

// CreateTenant makes a tenant and its first owner in one transaction. A user with the owner's e-mail address who is there already
// becomes the owner with his own password.
func (db *DB) CreateTenant(ctx context.Context, n NewTenant) (Tenant, User, error) {
	t := Tenant{ID: fleet.TenantID(uuid.NewString()), Name: n.Name, Currency: orElse(n.Currency, "USD"), TimeZone: orElse(n.TimeZone, "UTC")}
	if strings.TrimSpace(t.Name) == "" || len(t.Currency) != 3 {
		return t, User{}, fleet.Errorf(fleet.CodeInvalid, "a tenant needs a name and a three-letter currency")
	}
	if _, err := time.LoadLocation(t.TimeZone); err != nil {
		return t, User{}, fleet.Errorf(fleet.CodeInvalid, "time zone %q is not known", t.TimeZone)
	}
	var owner User
	err := db.Tenant(ctx, t.ID, func(tx *Tx) (err error) {
		t.CreatedAt = tx.Now
		if _, err = tx.pgx.Exec(ctx, "INSERT INTO tenant_directory (tenant_id, created_at) VALUES ($1, $2)", t.ID, tx.Now); err != nil {
			return fmt.Errorf("enter tenant: %w", err)
		}
		_, err = tx.pgx.Exec(ctx, "INSERT INTO tenant (tenant_id, name, currency, time_zone, created_at) VALUES ($1, $2, $3, $4, $5)",
			t.ID, t.Name, t.Currency, t.TimeZone, tx.Now)
		if err != nil {
			return fmt.Errorf("create tenant: %w", err)
		}
		if owner, err = AddMember(ctx, tx, n.Owner, "owner"); err != nil {
			return err
		}
		return Audit(ctx, tx, "system", "tenant.create", "tenant:"+string(t.ID), map[string]string{"name": t.Name, "owner": owner.Email})
	})
	return t, owner, err
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// LoadTenant reads the transaction's tenant.
func LoadTenant(ctx context.Context, tx *Tx) (t Tenant, err error) {
	err = tx.pgx.QueryRow(ctx, "SELECT tenant_id::text, name, currency, time_zone, created_at FROM tenant WHERE tenant_id = $1", tx.Tenant).
		Scan(&t.ID, &t.Name, &t.Currency, &t.TimeZone, &t.CreatedAt)
	if err != nil {
		return t, notFound(err, "tenant")
	}
	t.CreatedAt = t.CreatedAt.UTC()
	return t, nil
}

// TenantIDs lists all tenants, oldest first, for work that goes over all of them. It needs no tenant.
func TenantIDs(ctx context.Context, tx *Tx) ([]fleet.TenantID, error) {
	rows, err := tx.pgx.Query(ctx, "SELECT tenant_id::text FROM tenant_directory ORDER BY created_at, tenant_id")
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.TenantID])
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return ids, nil
}

const userColumns = "u.id::text, u.email, u.display_name, coalesce(u.password_hash, ''), u.disabled_at IS NOT NULL, u.created_at"

func (u *User) targets() []any {
	return []any{&u.ID, &u.Email, &u.DisplayName, &u.PasswordHash, &u.Disabled, &u.CreatedAt}
}

// UserByEmail finds an account; it needs no tenant. A missing one is not_found.
func UserByEmail(ctx context.Context, tx *Tx, email string) (u User, err error) {
	err = tx.pgx.QueryRow(ctx, "SELECT "+userColumns+" FROM user_account u WHERE u.email = $1", normalEmail(email)).Scan(u.targets()...)
	if err != nil {
		return u, notFound(err, "user")
	}
	u.CreatedAt = u.CreatedAt.UTC()
	return u, nil
}

func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// TenantsOf lists the tenants that a user belongs to, oldest first; it needs no tenant.
func TenantsOf(ctx context.Context, tx *Tx, user fleet.UserID) ([]fleet.TenantID, error) {
	rows, err := tx.pgx.Query(ctx, `
SELECT d.tenant_id::text FROM user_tenant m JOIN tenant_directory d ON d.tenant_id = m.tenant_id
WHERE m.user_id = $1 ORDER BY d.created_at, d.tenant_id`, user)
	if err != nil {
		return nil, fmt.Errorf("list tenants of user: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[fleet.TenantID])
	if err != nil {
		return nil, fmt.Errorf("list tenants of user: %w", err)
	}
	return ids, nil
}

// SetPasswordHash exchanges a user's password hash.
func SetPasswordHash(ctx context.Context, tx *Tx, user fleet.UserID, hash string) error {
	tag, err := tx.pgx.Exec(ctx, "UPDATE user_account SET password_hash = $2 WHERE id = $1", user, hash)
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such user")
	}
	return nil
}

// AddMember takes a person into the tenant, making the account when the e-mail address has none. Somebody who is a member already is
// a conflict.
func AddMember(ctx context.Context, tx *Tx, n NewUser, role string) (User, error) {
	email := normalEmail(n.Email)
	var hash *string
	if n.PasswordHash != "" {
		hash = &n.PasswordHash
	}
	_, err := tx.pgx.Exec(ctx, `
INSERT INTO user_account (id, email, display_name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (email) DO NOTHING`, uuid.NewString(), email, orElse(strings.TrimSpace(n.DisplayName), email), hash, tx.Now)
	if violates(err, "email_lower") {
		return User{}, &fleet.Error{Code: fleet.CodeInvalid, Field: "body.email", Message: "this is not an e-mail address"}
	}
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	u, err := UserByEmail(ctx, tx, email)
	if err != nil {
		return u, err
	}
	_, err = tx.pgx.Exec(ctx, "INSERT INTO membership (tenant_id, user_id, role, created_at) VALUES ($1, $2, $3, $4)", tx.Tenant, u.ID, role, tx.Now)
	if violates(err, "membership_pkey") {
		return u, fleet.Errorf(fleet.CodeConflict, "%s is a member already", u.Email)
	}
	if err != nil {
		return u, fmt.Errorf("add member: %w", err)
	}
	_, err = tx.pgx.Exec(ctx, "INSERT INTO user_tenant (user_id, tenant_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", u.ID, tx.Tenant)
	if err != nil {
		return u, fmt.Errorf("add member: %w", err)
	}
	return u, nil
}

const memberQuery = "SELECT " + userColumns + `, m.role, m.created_at
FROM membership m JOIN user_account u ON u.id = m.user_id WHERE m.tenant_id = @tenant`

func scanMember(row pgx.CollectableRow) (m Member, err error) {
	err = row.Scan(append(m.User.targets(), &m.Role, &m.JoinedAt)...)
	m.User.CreatedAt, m.JoinedAt = m.User.CreatedAt.UTC(), m.JoinedAt.UTC()
	return m, err
}

// Members lists the tenant's people by e-mail address.
func Members(ctx context.Context, tx *Tx) ([]Member, error) {
	rows, err := tx.pgx.Query(ctx, memberQuery+" ORDER BY u.email", pgx.NamedArgs{"tenant": tx.Tenant})
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	members, err := pgx.CollectRows(rows, scanMember)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}

// MemberByID finds a user in the tenant. Who is not a member is not_found.
func MemberByID(ctx context.Context, tx *Tx, user fleet.UserID) (Member, error) {
	rows, err := tx.pgx.Query(ctx, memberQuery+" AND m.user_id = @user", pgx.NamedArgs{"tenant": tx.Tenant, "user": user})
	if err != nil {
		return Member{}, fmt.Errorf("load member: %w", err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, scanMember)
	if err != nil {
		return m, notFound(err, "member")
	}
	return m, nil
}

var errLastOwner = fleet.Errorf(fleet.CodeConflict, "a tenant keeps at least one owner")

// SetRole changes what a member may do. The last owner stays one.
func SetRole(ctx context.Context, tx *Tx, user fleet.UserID, role string) error {
	if role != "owner" {
		if err := keepOwner(ctx, tx, user); err != nil {
			return err
		}
	}
	tag, err := tx.pgx.Exec(ctx, "UPDATE membership SET role = $3 WHERE tenant_id = $1 AND user_id = $2", tx.Tenant, user, role)
	if err != nil {
		return fmt.Errorf("set role: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such member")
	}
	return nil
}

// RemoveMember takes a person out of the tenant; the account stays. The last owner cannot go.
func RemoveMember(ctx context.Context, tx *Tx, user fleet.UserID) error {
	if err := keepOwner(ctx, tx, user); err != nil {
		return err
	}
	tag, err := tx.pgx.Exec(ctx, "DELETE FROM membership WHERE tenant_id = $1 AND user_id = $2", tx.Tenant, user)
	if err != nil {
		return fmt.Errorf("remove member: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fleet.Errorf(fleet.CodeNotFound, "no such member")
	}
	if _, err := tx.pgx.Exec(ctx, "DELETE FROM user_tenant WHERE user_id = $1 AND tenant_id = $2", user, tx.Tenant); err != nil {
		return fmt.Errorf("remove member: %w", err)
	}
	return nil
}

// keepOwner refuses when nobody else than user would be an owner. It locks the owners, so that two of them cannot step down at once.
func keepOwner(ctx context.Context, tx *Tx, user fleet.UserID) error {
	rows, err := tx.pgx.Query(ctx, "SELECT user_id::text FROM membership WHERE tenant_id = $1 AND role = 'owner' ORDER BY user_id FOR UPDATE", tx.Tenant)
	if err != nil {
		return fmt.Errorf("lock owners: %w", err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[fleet.UserID])
	if err != nil {
		return fmt.Errorf("lock owners: %w", err)
	}
	if len(owners) == 1 && owners[0] == user {
		return errLastOwner
	}
	return nil
}

// IsNotFound says whether err means that the thing is not there, for callers that then go on.
func IsNotFound(err error) bool {
	var coded *fleet.Error
	return errors.As(err, &coded) && coded.Code == fleet.CodeNotFound
}
