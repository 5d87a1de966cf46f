-- +goose Up
CREATE TABLE policy (
  tenant_id   uuid NOT NULL,
  workload_id uuid NOT NULL,
  version     integer NOT NULL,
  document    text NOT NULL,           -- the YAML as written
  mode        text NOT NULL CONSTRAINT policy_mode CHECK (mode IN ('observe', 'recommend', 'approve', 'enforce')),
  created_by  text NOT NULL,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workload_id, version),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('policy', 'SELECT, INSERT');

-- What a policy must remember between decisions: recent recommendations, last changes, flaps.
CREATE TABLE planner_memory (
  tenant_id   uuid NOT NULL,
  workload_id uuid NOT NULL,
  memory      jsonb NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, workload_id),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('planner_memory', 'SELECT, INSERT, UPDATE');

CREATE TABLE plan (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  cluster_id    uuid NOT NULL,
  generation    bigint NOT NULL,
  parent_id     uuid,
  at            timestamptz NOT NULL,  -- data time of the snapshot
  created_at    timestamptz NOT NULL,  -- our clock
  expires_at    timestamptz NOT NULL,  -- data time
  mode          text NOT NULL,
  input_hash    bytea NOT NULL,        -- SHA-256 of input
  input         bytea NOT NULL,        -- zstd JSON of everything Decide saw: the decision can be computed again
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT plan_generation_key UNIQUE (tenant_id, cluster_id, generation)
);
ALTER TABLE plan ALTER COLUMN input SET STORAGE EXTERNAL;
SELECT app_isolate('plan', 'SELECT, INSERT, DELETE');

CREATE TABLE decision (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  plan_id       uuid NOT NULL,
  cluster_id    uuid NOT NULL,
  workload_id   uuid NOT NULL,
  at            timestamptz NOT NULL,
  outcome       text NOT NULL CONSTRAINT decision_outcome CHECK (outcome IN ('scale_up', 'scale_down', 'hold')),
  from_replicas integer NOT NULL,
  needed        integer NOT NULL,      -- what the signals alone ask for
  target        integer NOT NULL,      -- after damping and bounds
  binding       text NOT NULL,         -- code of the reason that settled target
  detail        jsonb NOT NULL,        -- optimizer.Decision: inputs with age, reasons with numbers, alternatives
  cost_delta_nano bigint,              -- per hour; NULL: price unknown
  state         text NOT NULL CONSTRAINT decision_state CHECK (state IN
    ('noted', 'proposed', 'approved', 'rejected', 'expired', 'dispatched', 'applied', 'refused', 'failed', 'superseded')),
  expires_at    timestamptz NOT NULL,  -- data time: after it nobody may approve or apply
  decided_by    text,                  -- who approved or rejected
  decided_at    timestamptz,
  before_replicas integer,
  after_replicas  integer,
  result_code   text,
  result_detail text,
  finished_at   timestamptz,           -- data time of the agent's result
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, plan_id) REFERENCES plan (tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT decision_action CHECK ((outcome = 'hold') = (target = from_replicas)),
  CONSTRAINT decision_hold_is_noted CHECK (outcome <> 'hold' OR state = 'noted')
);
CREATE INDEX decision_by_workload ON decision (tenant_id, workload_id, at DESC, id);
CREATE INDEX decision_by_time ON decision (tenant_id, at DESC, id);
CREATE INDEX decision_open ON decision (tenant_id, cluster_id, state) WHERE state IN ('proposed', 'approved', 'dispatched');
SELECT app_isolate('decision', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE decision, plan, planner_memory, policy;
