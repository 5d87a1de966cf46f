-- +goose Up
-- Exactly once: one row per stream holds the watermark; a report is accepted by moving last_seq from seq-1 to seq in the same
-- transaction that stores it. Only the highest epoch may write.
CREATE TABLE ingest_stream (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  stream     text NOT NULL,
  epoch      bigint NOT NULL,
  last_seq   bigint NOT NULL DEFAULT 0,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, stream),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('ingest_stream', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE ingest_series (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  stream     text NOT NULL,
  epoch      bigint NOT NULL,
  series_id  integer NOT NULL,
  kind       text NOT NULL,
  entity     text NOT NULL,
  field      text NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, stream, epoch, series_id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('ingest_series', 'SELECT, INSERT, DELETE');

CREATE TABLE telemetry_frame (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  stream     text NOT NULL,
  epoch      bigint NOT NULL,
  seq        bigint NOT NULL,
  from_at    timestamptz NOT NULL,
  to_at      timestamptz NOT NULL,
  payload    bytea NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, stream, epoch, seq),
  CONSTRAINT telemetry_frame_span CHECK (from_at < to_at)
);
ALTER TABLE telemetry_frame ALTER COLUMN payload SET STORAGE EXTERNAL; -- zstd already
CREATE INDEX telemetry_frame_span ON telemetry_frame (tenant_id, cluster_id, from_at);
SELECT app_isolate('telemetry_frame', 'SELECT, INSERT, DELETE');

CREATE TABLE observation (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  at         timestamptz NOT NULL,
  stream     text NOT NULL,
  epoch      bigint NOT NULL,
  seq        bigint NOT NULL,
  body       bytea NOT NULL,           -- plimsoll.agent.v1.Observation
  PRIMARY KEY (tenant_id, cluster_id, at, stream, epoch, seq)
);
SELECT app_isolate('observation', 'SELECT, INSERT, DELETE');

-- Blocks of two hours whose chunks and roll-ups must be made again. marks counts the reports that said so: a block is clean only
-- if it still has the count that was read before its frames were.
CREATE TABLE rollup_dirty (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  block_at   timestamptz NOT NULL,
  marked_at  timestamptz NOT NULL,
  marks      bigint NOT NULL DEFAULT 1,
  fresh_to   timestamptz,              -- of a running block: its minutes are rolled up as far as here,
  fresh_marks bigint NOT NULL DEFAULT 0, -- with as many marks as there were then
  PRIMARY KEY (tenant_id, cluster_id, block_at)
);
SELECT app_isolate('rollup_dirty', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE telemetry_chunk (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  kind       text NOT NULL,            -- workload, gpu, node
  entity     text NOT NULL,
  from_at    timestamptz NOT NULL,
  to_at      timestamptz NOT NULL,
  fields     text[] NOT NULL,
  samples    integer NOT NULL,
  payload    bytea NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, from_at, kind, entity)
);
ALTER TABLE telemetry_chunk ALTER COLUMN payload SET STORAGE EXTERNAL;
SELECT app_isolate('telemetry_chunk', 'SELECT, INSERT, UPDATE, DELETE');

-- Roll-ups of workloads: means over the bucket unless the name says otherwise; NULL = nobody said. Everything the dashboard draws.
CREATE TABLE rollup_1m (
  tenant_id uuid NOT NULL, cluster_id uuid NOT NULL, workload_id uuid NOT NULL, at timestamptz NOT NULL,
  samples integer NOT NULL,
  replicas real, ready real, starting real,
  request_rate real, request_rate_max real, queue_length real, queue_length_max real, running_requests real,
  latency_p50_seconds real, latency_p99_seconds real, latency_p99_max real, ttft_p99_seconds real,
  kv_cache_ratio real, gpu_sm_active_ratio real, gpu_util_ratio real, gpu_memory_used_mib real,
  cpu_cores real, cpu_ratio real, memory_mib real, error_ratio real, late_ratio real,
  tokens_in_per_second real, tokens_out_per_second real,
  PRIMARY KEY (tenant_id, workload_id, at)
);
CREATE INDEX rollup_1m_at ON rollup_1m USING brin (at);
SELECT app_isolate('rollup_1m', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE rollup_1h (LIKE rollup_1m INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (tenant_id, workload_id, at));
SELECT app_isolate('rollup_1h', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE rollup_1d (LIKE rollup_1m INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (tenant_id, workload_id, at));
SELECT app_isolate('rollup_1d', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE rollup_1d, rollup_1h, rollup_1m, telemetry_chunk, rollup_dirty, observation, telemetry_frame, ingest_series, ingest_stream;
