-- +goose Up
-- Replays of a policy on a workload's own history: what was asked for, how far it is, and what was found (lab.HistoryReport).
CREATE TABLE replay (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  workload_id   uuid NOT NULL,
  document      text NOT NULL,         -- the proposed policy, as written
  document_hash bytea NOT NULL,        -- SHA-256 of it: what may be enforced afterwards
  current_version integer NOT NULL,    -- of the policy in force then; 0: none
  from_at       timestamptz NOT NULL,  -- data time
  to_at         timestamptz NOT NULL,
  options       jsonb NOT NULL,        -- baselines, requests per replica, start
  state         text NOT NULL CONSTRAINT replay_state CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  progress      real NOT NULL DEFAULT 0 CONSTRAINT replay_progress CHECK (progress BETWEEN 0 AND 1),
  step          text NOT NULL DEFAULT '',
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  started_at    timestamptz,
  finished_at   timestamptz,
  problem       text NOT NULL DEFAULT '',
  usable        boolean NOT NULL DEFAULT false, -- done, and the proposed policy could be played
  result        jsonb CONSTRAINT replay_result_size CHECK (octet_length(result::text) <= 262144),
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT replay_window CHECK (from_at < to_at)
);
CREATE INDEX replay_by_time ON replay (tenant_id, created_at DESC, id DESC);
CREATE INDEX replay_by_workload ON replay (tenant_id, workload_id, created_at DESC);
CREATE INDEX replay_open ON replay (tenant_id) WHERE state IN ('queued', 'running');
SELECT app_isolate('replay', 'SELECT, INSERT, UPDATE, DELETE');

-- Staged rollouts of a policy: shadow (it decides and is noted, the one in force acts), canary (it acts under watch and may take away only a
-- share of the replicas), enforce (it acts under watch), done; or rolled_back, cancelled, superseded.
CREATE TABLE policy_rollout (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  workload_id   uuid NOT NULL,
  cluster_id    uuid NOT NULL,
  document      text NOT NULL,
  base_version  integer NOT NULL,      -- in force before
  version       integer,               -- saved for the canary; NULL before
  state         text NOT NULL CONSTRAINT policy_rollout_state CHECK (state IN
    ('shadow', 'canary', 'enforce', 'done', 'rolled_back', 'cancelled', 'superseded')),
  shadow_seconds integer NOT NULL,
  canary_seconds integer NOT NULL,     -- also of the watch under enforce
  canary_share  real NOT NULL,         -- of the replicas at its beginning that it may take away
  canary_floor  integer,               -- replicas, from the share
  replay_id     uuid,
  reason        text NOT NULL,         -- why without a replay; empty with one
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  stage_at      timestamptz NOT NULL,  -- data time: when the stage began
  before_late   real,                  -- means over as long as the stage before the canary; NULL: nobody said
  before_error  real,
  after_late    real,
  after_error   real,
  shadow        jsonb NOT NULL DEFAULT '{}', -- what the shadow decided, in numbers
  memory        jsonb,                 -- of the shadow's decisions
  outcome       text NOT NULL DEFAULT '',    -- why it ended
  finished_at   timestamptz,
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX policy_rollout_open ON policy_rollout (tenant_id, workload_id) WHERE state IN ('shadow', 'canary', 'enforce');
CREATE INDEX policy_rollout_by_workload ON policy_rollout (tenant_id, workload_id, created_at DESC);
SELECT app_isolate('policy_rollout', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE policy_rollout, replay;
