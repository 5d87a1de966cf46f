-- +goose Up
-- What people expect of a workload's load, beyond what can be learned from its past: a floor under the forecast while it holds.
CREATE TABLE workload_hint (
  tenant_id    uuid NOT NULL,
  workload_id  uuid NOT NULL,
  id           uuid NOT NULL,               -- v7
  from_at      timestamptz NOT NULL,        -- the cluster's time, like all that decisions go by
  to_at        timestamptz NOT NULL,
  kind         text NOT NULL CONSTRAINT workload_hint_kind CHECK (kind IN ('factor', 'rate', 'replicas')),
  amount       double precision NOT NULL CONSTRAINT workload_hint_amount CHECK (amount > 0 AND amount <= 1e9), -- times the demand before; requests per second; replicas
  note         text NOT NULL CONSTRAINT workload_hint_note CHECK (length(note) <= 500),
  created_by   text NOT NULL,
  created_at   timestamptz NOT NULL,        -- our clock
  PRIMARY KEY (tenant_id, workload_id, id),
  CONSTRAINT workload_hint_span CHECK (to_at > from_at),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX workload_hint_to ON workload_hint (tenant_id, to_at);
SELECT app_isolate('workload_hint', 'SELECT, INSERT, DELETE');

-- +goose Down
DROP TABLE workload_hint;
