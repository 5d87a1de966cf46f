-- +goose Up
-- Global directory: nothing here names a tenant's data; only what sign-in needs before a tenant is known.
CREATE TABLE tenant_directory (
  tenant_id  uuid PRIMARY KEY,
  created_at timestamptz NOT NULL
);
SELECT app_reference('tenant_directory', 'SELECT, INSERT, DELETE');

CREATE TABLE user_account (
  id            uuid PRIMARY KEY,
  email         text NOT NULL CONSTRAINT email_lower CHECK (email = lower(email) AND email LIKE '%_@_%'),
  display_name  text NOT NULL,
  password_hash text,               -- argon2id PHC string; NULL: signs in elsewhere
  created_at    timestamptz NOT NULL,
  disabled_at   timestamptz,
  CONSTRAINT user_account_email_key UNIQUE (email)
);
SELECT app_reference('user_account', 'SELECT, INSERT, UPDATE');

CREATE TABLE user_tenant (
  user_id   uuid NOT NULL REFERENCES user_account (id),
  tenant_id uuid NOT NULL,
  PRIMARY KEY (user_id, tenant_id)
);
SELECT app_reference('user_tenant', 'SELECT, INSERT, DELETE');

CREATE TABLE web_session (
  token      text PRIMARY KEY,       -- SHA-256 of the cookie value, hex: a stolen table signs nobody in
  data       bytea NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX web_session_expires ON web_session (expires_at);
SELECT app_reference('web_session', 'SELECT, INSERT, UPDATE, DELETE');

-- Keys that sign agent tokens, private part sealed with the service's secret (AES-GCM).
CREATE TABLE signing_key (
  kid            text PRIMARY KEY,
  public_key     bytea NOT NULL,
  sealed_private bytea NOT NULL,
  created_at     timestamptz NOT NULL,
  retires_at     timestamptz NOT NULL, -- signs no more after this
  expires_at     timestamptz NOT NULL, -- verifies no more after this
  CONSTRAINT signing_key_order CHECK (created_at < retires_at AND retires_at < expires_at)
);
SELECT app_reference('signing_key', 'SELECT, INSERT, DELETE');

CREATE TABLE tenant (
  tenant_id  uuid PRIMARY KEY,
  name       text NOT NULL,
  currency   text NOT NULL DEFAULT 'USD',
  time_zone  text NOT NULL DEFAULT 'UTC', -- IANA
  created_at timestamptz NOT NULL
);
SELECT app_isolate('tenant', 'SELECT, INSERT, UPDATE');

CREATE TABLE membership (
  tenant_id  uuid NOT NULL,
  user_id    uuid NOT NULL,
  role       text NOT NULL CONSTRAINT membership_role CHECK (role IN ('owner', 'admin', 'operator', 'finance', 'viewer')),
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, user_id)
);
SELECT app_isolate('membership', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE api_key (
  tenant_id    uuid NOT NULL,
  id           uuid NOT NULL,
  name         text NOT NULL,
  secret_hash  bytea NOT NULL,       -- SHA-256 of 32 random bytes
  hint         text NOT NULL,        -- last four characters, for people
  role         text NOT NULL CONSTRAINT api_key_role CHECK (role IN ('admin', 'operator', 'finance', 'viewer')),
  created_by   uuid,
  created_at   timestamptz NOT NULL,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz,
  PRIMARY KEY (tenant_id, id)
);
SELECT app_isolate('api_key', 'SELECT, INSERT, UPDATE');

CREATE TABLE audit_log (
  tenant_id uuid NOT NULL,
  seq       bigint NOT NULL,          -- 1, 2, 3 without holes, taken under the tenant's row lock
  at        timestamptz NOT NULL,
  actor     text NOT NULL,            -- user:<id>, key:<id>, agent:<cluster>, system
  action    text NOT NULL,
  object    text NOT NULL,
  detail    jsonb NOT NULL,
  prev_hash bytea NOT NULL,
  hash      bytea NOT NULL,
  PRIMARY KEY (tenant_id, seq)
);
SELECT app_isolate('audit_log', 'SELECT, INSERT');

-- +goose Down
DROP TABLE audit_log, api_key, membership, tenant, signing_key, web_session, user_tenant, user_account, tenant_directory;
