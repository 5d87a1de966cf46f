-- +goose Up
CREATE TABLE cluster (
  tenant_id          uuid NOT NULL,
  id                 uuid NOT NULL,
  name               text NOT NULL,
  mode               text NOT NULL CONSTRAINT cluster_mode CHECK (mode IN ('observe', 'recommend', 'approve', 'enforce')),
  frozen             boolean NOT NULL DEFAULT false,
  created_at         timestamptz NOT NULL,
  -- What the agent said last.
  agent_version      text NOT NULL DEFAULT '',
  kubernetes_version text NOT NULL DEFAULT '',
  capabilities       text[] NOT NULL DEFAULT '{}',
  agent_limits       jsonb NOT NULL DEFAULT '{}',
  simulated_clock    boolean NOT NULL DEFAULT false,
  clock_speed        double precision NOT NULL DEFAULT 1,
  skew_ms            bigint NOT NULL DEFAULT 0,  -- agent's clock minus ours at the last report
  last_seen_at       timestamptz,                -- our clock
  data_at            timestamptz,                -- the agent's clock: the newest data
  applied_generation bigint NOT NULL DEFAULT 0,
  -- The newest plan.
  generation         bigint NOT NULL DEFAULT 0,
  head_plan_id       uuid,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT cluster_name_key UNIQUE (tenant_id, name)
);
SELECT app_isolate('cluster', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE enrolment_token (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  secret_hash bytea NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL,
  used_at     timestamptz,
  install_id  text,                    -- who used it; the same install may ask again
  revoked_at  timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT enrolment_token_used CHECK ((used_at IS NULL) = (install_id IS NULL)),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('enrolment_token', 'SELECT, INSERT, UPDATE');

CREATE TABLE workload (
  tenant_id  uuid NOT NULL,
  id         uuid NOT NULL,           -- UUIDv5 of (cluster, key): the same workload is the same id after a re-install
  cluster_id uuid NOT NULL,
  key        text NOT NULL,           -- namespace/Kind/name
  namespace  text NOT NULL,
  kind       text NOT NULL,
  name       text NOT NULL,
  team       text NOT NULL DEFAULT '',
  class      text NOT NULL DEFAULT 'standard' CONSTRAINT workload_class CHECK (class IN ('gold', 'standard', 'economy')),
  labels     jsonb NOT NULL DEFAULT '{}',
  cpu_milli  bigint NOT NULL DEFAULT 0,
  mem_mib    bigint NOT NULL DEFAULT 0,
  gpu_milli  bigint NOT NULL DEFAULT 0,
  replicas   integer NOT NULL DEFAULT 0,
  scalable   boolean NOT NULL DEFAULT true,
  preflight  text[] NOT NULL DEFAULT '{}', -- findings: no_readiness_probe, no_requests
  first_seen timestamptz NOT NULL,
  gone_at    timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT workload_key_key UNIQUE (tenant_id, cluster_id, key),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('workload', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE node (
  tenant_id      uuid NOT NULL,
  cluster_id     uuid NOT NULL,
  uid            text NOT NULL,
  name           text NOT NULL,
  pool           text NOT NULL DEFAULT '',
  cloud          text NOT NULL DEFAULT '',
  region         text NOT NULL DEFAULT '',
  zone           text NOT NULL DEFAULT '',
  instance_type  text NOT NULL DEFAULT '',
  purchase       text NOT NULL DEFAULT 'on_demand',
  phase          text NOT NULL,
  cpu_milli      bigint NOT NULL DEFAULT 0,
  mem_mib        bigint NOT NULL DEFAULT 0,
  gpu_model      text NOT NULL DEFAULT '',
  gpu_count      integer NOT NULL DEFAULT 0,
  gpu_memory_mib bigint NOT NULL DEFAULT 0,
  labels         jsonb NOT NULL DEFAULT '{}',
  started_at     timestamptz NOT NULL,
  ready_at       timestamptz,
  ended_at       timestamptz,
  PRIMARY KEY (tenant_id, cluster_id, uid),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX node_live ON node (tenant_id, cluster_id, started_at, ended_at);
SELECT app_isolate('node', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE pod (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  uid          text NOT NULL,
  name         text NOT NULL,
  namespace    text NOT NULL,
  workload_key text NOT NULL DEFAULT '',
  node         text NOT NULL DEFAULT '',
  phase        text NOT NULL,
  reason       text NOT NULL DEFAULT '',
  cpu_milli    bigint NOT NULL DEFAULT 0,
  mem_mib      bigint NOT NULL DEFAULT 0,
  gpu_milli    bigint NOT NULL DEFAULT 0,
  labels       jsonb NOT NULL DEFAULT '{}',
  created_at   timestamptz NOT NULL,
  started_at   timestamptz,
  ready_at     timestamptz,
  ended_at     timestamptz,
  PRIMARY KEY (tenant_id, cluster_id, uid),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX pod_live ON pod (tenant_id, cluster_id, created_at, ended_at);
SELECT app_isolate('pod', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE workload_writer (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  workload_key text NOT NULL,
  manager      text NOT NULL,
  object       text NOT NULL DEFAULT '',
  field        text NOT NULL,
  at           timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, workload_key, manager, object, field),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('workload_writer', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE cluster_event (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  at           timestamptz NOT NULL,
  stream       text NOT NULL,
  epoch        bigint NOT NULL,
  seq          bigint NOT NULL,
  position     integer NOT NULL,       -- within the report
  kind         text NOT NULL,
  object       text NOT NULL DEFAULT '',
  workload_key text NOT NULL DEFAULT '',
  reason       text NOT NULL DEFAULT '',
  message      text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant_id, cluster_id, at, stream, epoch, seq, position),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('cluster_event', 'SELECT, INSERT, DELETE');

-- +goose Down
DROP TABLE cluster_event, workload_writer, pod, node, workload, enrolment_token, cluster;
