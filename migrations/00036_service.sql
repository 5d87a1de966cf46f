-- +goose Up
-- Services that run as one workload in each of several clusters. None exists until somebody declares it.
CREATE TABLE service (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL CONSTRAINT service_name CHECK (length(name) BETWEEN 1 AND 63), -- workloads with the label plimsoll.dev/service of this value belong to it
  mode        text NOT NULL CONSTRAINT service_mode CHECK (mode IN ('off', 'recommend', 'enforce')),
  rules       jsonb NOT NULL,
  version     integer NOT NULL CONSTRAINT service_version CHECK (version > 0),
  memory      jsonb NOT NULL DEFAULT '{}',  -- what its plans remember
  checked_at  timestamptz,                  -- our clock: of the newest plan; NULL: none
  took_ms     bigint NOT NULL DEFAULT 0,
  updated_by  text NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT service_name_key UNIQUE (tenant_id, name)
);
SELECT app_isolate('service', 'SELECT, INSERT, UPDATE, DELETE');

-- Its workloads that were named, with the bounds of each cluster's part.
CREATE TABLE service_site (
  tenant_id    uuid NOT NULL,
  service_id   uuid NOT NULL,
  workload_id  uuid NOT NULL,
  rules        jsonb NOT NULL,
  PRIMARY KEY (tenant_id, service_id, workload_id),
  CONSTRAINT service_site_workload UNIQUE (tenant_id, workload_id), -- a workload is of one service
  FOREIGN KEY (tenant_id, service_id) REFERENCES service (tenant_id, id) ON DELETE CASCADE,
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('service_site', 'SELECT, INSERT, UPDATE, DELETE');

-- Plans that said something new, with what they were made from.
CREATE TABLE service_plan (
  tenant_id   uuid NOT NULL,
  service_id  uuid NOT NULL,
  id          uuid NOT NULL,               -- v7
  first_at    timestamptz NOT NULL,        -- our clock
  at          timestamptz NOT NULL,        -- of the newest computation that said this
  outcome     text NOT NULL,
  target      integer NOT NULL,
  before_nano bigint NOT NULL,
  after_nano  bigint NOT NULL,
  says        bytea NOT NULL,              -- SHA-256 of what a person would call the plan
  plan        bytea NOT NULL,              -- JSON, zstd
  input_hash  bytea NOT NULL,
  input       bytea NOT NULL,              -- JSON, zstd
  PRIMARY KEY (tenant_id, service_id, id),
  FOREIGN KEY (tenant_id, service_id) REFERENCES service (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('service_plan', 'SELECT, INSERT, UPDATE, DELETE');

-- What the newest plan leaves the policies of workloads, in enforce. It holds for a while only.
CREATE TABLE service_bound (
  tenant_id    uuid NOT NULL,
  workload_id  uuid NOT NULL,
  service_id   uuid NOT NULL,
  bound        jsonb NOT NULL,
  at           timestamptz NOT NULL,       -- our clock
  PRIMARY KEY (tenant_id, workload_id),
  FOREIGN KEY (tenant_id, service_id) REFERENCES service (tenant_id, id) ON DELETE CASCADE,
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('service_bound', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE service_bound, service_plan, service_site, service;
