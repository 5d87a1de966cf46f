-- +goose Up
-- Groups of machines at clouds that capacity plans may make larger. Off until somebody switches one on. The account is the one that may write: a role of its own.
CREATE TABLE cloud_group (
  tenant_id      uuid NOT NULL,
  id             uuid NOT NULL,
  cluster_id     uuid NOT NULL,
  account_id     uuid NOT NULL,
  ref            text NOT NULL,           -- as the cloud's adapter writes it
  cloud          text NOT NULL,
  region         text NOT NULL,
  zones          text[] NOT NULL,         -- empty: any of the region
  instance_types text[] NOT NULL CONSTRAINT cloud_group_types CHECK (cardinality(instance_types) BETWEEN 1 AND 40),
  purchase       text NOT NULL,
  min_size       integer NOT NULL,
  max_size       integer NOT NULL,
  step           integer NOT NULL CONSTRAINT cloud_group_step CHECK (step > 0),         -- machines that one action adds at most
  hourly         integer NOT NULL CONSTRAINT cloud_group_hourly CHECK (hourly > 0),     -- machines that are added within an hour at most
  enabled        boolean NOT NULL DEFAULT false,
  updated_by     text NOT NULL,
  updated_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT cloud_group_ref UNIQUE (tenant_id, account_id, ref),
  CONSTRAINT cloud_group_bounds CHECK (0 <= min_size AND min_size <= max_size AND max_size <= 20000),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE,
  FOREIGN KEY (tenant_id, account_id) REFERENCES cloud_account (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('cloud_group', 'SELECT, INSERT, UPDATE, DELETE');

-- What was asked of a group, with the size before and after. It is written before the cloud is asked, so that asking again after a crash is the same action.
CREATE TABLE cloud_group_action (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,             -- v7; the cloud's token of the action
  group_id    uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  plan_id     uuid,                      -- NULL: a person's undo
  undoes      uuid,
  before_size integer NOT NULL,
  ready_before integer NOT NULL,
  desired     integer NOT NULL,
  version     text NOT NULL,             -- of the group as it was decided upon
  state       text NOT NULL CONSTRAINT cloud_group_action_state CHECK (state IN ('asked', 'pending', 'partial', 'reached', 'joined', 'stock_out', 'refused', 'replaced', 'failed')),
  ready       integer NOT NULL DEFAULT 0,
  failures    jsonb NOT NULL DEFAULT '[]',
  problem     text NOT NULL DEFAULT '',
  result      jsonb NOT NULL DEFAULT '{}', -- what the cloud answered
  asked_at    timestamptz NOT NULL,
  checked_at  timestamptz NOT NULL,
  closed_at   timestamptz,
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, group_id) REFERENCES cloud_group (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX cloud_group_action_open ON cloud_group_action (tenant_id, group_id) WHERE closed_at IS NULL;
CREATE INDEX cloud_group_action_at ON cloud_group_action (tenant_id, cluster_id, asked_at);
SELECT app_isolate('cloud_group_action', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE cloud_group_action, cloud_group;
