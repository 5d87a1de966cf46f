-- +goose Up
-- Rollouts of capacity policies: shadow (it is planned beside the one in force), canary (it is in force on a share of the clusters and of the
-- machines of each, step by step, under watch), done; or rolled_back, cancelled, superseded.
CREATE TABLE capacity_rollout (
  tenant_id      uuid NOT NULL,
  id             uuid NOT NULL,            -- v7
  document       jsonb NOT NULL,           -- the proposed policy
  state          text NOT NULL CONSTRAINT capacity_rollout_state CHECK (state IN ('shadow', 'canary', 'done', 'rolled_back', 'cancelled', 'superseded')),
  step           integer NOT NULL DEFAULT 0, -- of shares
  shares         integer[] NOT NULL CONSTRAINT capacity_rollout_shares CHECK (cardinality(shares) BETWEEN 1 AND 10 AND shares[cardinality(shares)] = 1000), -- thousandths
  shadow_seconds integer NOT NULL CONSTRAINT capacity_rollout_shadow CHECK (shadow_seconds > 0),
  stage_seconds  integer NOT NULL CONSTRAINT capacity_rollout_stage CHECK (stage_seconds > 0),
  hourly         integer NOT NULL CONSTRAINT capacity_rollout_hourly CHECK (hourly > 0), -- machines of a cluster that may come or go within an hour under it
  cost_over      integer NOT NULL CONSTRAINT capacity_rollout_cost CHECK (cost_over >= 0), -- thousandths above what was promised
  paused         boolean NOT NULL DEFAULT false,
  outcome        text NOT NULL DEFAULT '', -- why it ended
  outcome_at     text NOT NULL DEFAULT '', -- the cluster that ended it
  created_by     text NOT NULL,
  created_at     timestamptz NOT NULL,
  stage_at       timestamptz NOT NULL,     -- our clock
  looked_at      timestamptz,              -- our clock
  finished_at    timestamptz,
  seq            integer NOT NULL DEFAULT 0, -- of its newest step
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT capacity_rollout_step_of CHECK (step BETWEEN 0 AND cardinality(shares) - 1),
  CONSTRAINT capacity_rollout_finished CHECK ((state IN ('shadow', 'canary')) = (finished_at IS NULL))
);
SELECT app_isolate('capacity_rollout', 'SELECT, INSERT, UPDATE, DELETE');

-- The clusters of a rollout in the order in which they are reached.
CREATE TABLE capacity_rollout_part (
  tenant_id    uuid NOT NULL,
  rollout_id   uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  position     integer NOT NULL,
  open         boolean NOT NULL DEFAULT true, -- the rollout is
  base         jsonb NOT NULL,          -- the policy before
  base_version integer NOT NULL,        -- 0: none, the defaults
  watched      bigint NOT NULL DEFAULT 0,
  silent       bigint NOT NULL DEFAULT 0,
  looks        integer NOT NULL DEFAULT 0,
  bad          integer NOT NULL DEFAULT 0,
  bad_what     text NOT NULL DEFAULT '',
  bad_since    timestamptz,
  looked_at    timestamptz,             -- our clock
  data_at      timestamptz,             -- the cluster's
  stage_at     timestamptz,             -- the cluster's
  before       jsonb,
  after        jsonb,
  shadow       jsonb CONSTRAINT capacity_rollout_part_size CHECK (octet_length(shadow::text) <= 262144),
  PRIMARY KEY (tenant_id, rollout_id, cluster_id),
  FOREIGN KEY (tenant_id, rollout_id) REFERENCES capacity_rollout (tenant_id, id) ON DELETE CASCADE,
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX capacity_rollout_part_open ON capacity_rollout_part (tenant_id, cluster_id) WHERE open; -- never two policies on their way to one cluster
SELECT app_isolate('capacity_rollout_part', 'SELECT, INSERT, UPDATE, DELETE');

-- Steps that were taken, each once.
CREATE TABLE capacity_rollout_step (
  tenant_id   uuid NOT NULL,
  rollout_id  uuid NOT NULL,
  seq         integer NOT NULL,
  at          timestamptz NOT NULL,     -- our clock
  what        text NOT NULL,            -- shadow, canary, done, rolled_back, cancelled, superseded, paused, resumed
  step        integer NOT NULL,
  actor       text NOT NULL,
  outcome     text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant_id, rollout_id, seq),
  FOREIGN KEY (tenant_id, rollout_id) REFERENCES capacity_rollout (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('capacity_rollout_step', 'SELECT, INSERT, DELETE');

-- +goose Down
DROP TABLE capacity_rollout_step, capacity_rollout_part, capacity_rollout;
