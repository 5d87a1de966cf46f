-- +goose Up
-- Caps and taste of a cluster's capacity plans; none: the defaults. Who changed it before is in the audit log.
CREATE TABLE capacity_policy (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  version     integer NOT NULL CONSTRAINT capacity_policy_version CHECK (version > 0),
  document    jsonb NOT NULL,
  updated_by  text NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('capacity_policy', 'SELECT, INSERT, UPDATE, DELETE');

-- Plans of a cluster's machines: one row per plan that says something new; while nothing changes the newest row is written again. The
-- newest hundred of a cluster are kept.
CREATE TABLE capacity_plan (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  id           uuid NOT NULL,           -- v7: newest last
  at           timestamptz NOT NULL,    -- data time of the newest computation that said this
  first_at     timestamptz NOT NULL,    -- data time of the first
  checked_at   timestamptz NOT NULL,    -- our clock
  took_ms      integer NOT NULL,        -- loading, deciding and checking
  outcome      text NOT NULL CONSTRAINT capacity_plan_outcome CHECK (outcome IN ('change', 'nothing', 'held')),
  adds         integer NOT NULL,        -- machines
  drains       integer NOT NULL,
  waiting      integer NOT NULL,        -- pods
  before_nano  bigint NOT NULL,
  after_nano   bigint NOT NULL,
  says         bytea NOT NULL,          -- SHA-256 of what a person would call the same plan
  plan         bytea NOT NULL CONSTRAINT capacity_plan_size CHECK (octet_length(plan) <= 4194304),         -- zstd JSON
  input_hash   bytea NOT NULL,          -- SHA-256 of input
  input        bytea NOT NULL CONSTRAINT capacity_plan_input_size CHECK (octet_length(input) <= 8388608),  -- zstd JSON: the plan can be computed again
  PRIMARY KEY (tenant_id, cluster_id, id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE capacity_plan ALTER COLUMN plan SET STORAGE EXTERNAL, ALTER COLUMN input SET STORAGE EXTERNAL;
SELECT app_isolate('capacity_plan', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE capacity_plan, capacity_policy;
