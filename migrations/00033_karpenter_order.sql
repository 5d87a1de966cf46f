-- +goose Up
-- Whether a cluster's capacity plans are carried out through Karpenter, and how. Off until somebody switches it on.
CREATE TABLE karpenter_policy (
  tenant_id       uuid NOT NULL,
  cluster_id      uuid NOT NULL,
  version         integer NOT NULL CONSTRAINT karpenter_policy_version CHECK (version > 0),
  enabled         boolean NOT NULL DEFAULT false,
  class_group     text NOT NULL,
  class_kind      text NOT NULL,
  class_name      text NOT NULL,
  reservation_key text NOT NULL DEFAULT '',       -- node label that names a reservation; empty: reserved offerings are left to Karpenter
  prices          boolean NOT NULL DEFAULT false, -- tell effective prices by NodeOverlays, an alpha feature of Karpenter
  updated_by      text NOT NULL,
  updated_at      timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('karpenter_policy', 'SELECT, INSERT, UPDATE, DELETE');

-- What an agent was told to make of Karpenter's objects. Its generation is of the same count as those of plans of replicas. One of a cluster is open at a time; it is told again
-- until all of its actions are answered or its time is over.
CREATE TABLE karpenter_order (
  tenant_id        uuid NOT NULL,
  id               uuid NOT NULL,          -- v7
  cluster_id       uuid NOT NULL,
  generation       bigint NOT NULL,
  capacity_plan_id uuid,                   -- NULL: a hand-back. The plan may be forgotten before the order
  kind             text NOT NULL CONSTRAINT karpenter_order_kind CHECK (kind IN ('plan', 'hand_back')),
  says             bytea NOT NULL,         -- SHA-256 of the actions
  bought_nano      bigint,                 -- per hour: what Karpenter is expected to buy
  at               timestamptz NOT NULL,   -- data time
  expires_at       timestamptz NOT NULL,   -- data time
  created_at       timestamptz NOT NULL,   -- our clock
  created_by       text NOT NULL,
  state            text NOT NULL CONSTRAINT karpenter_order_state CHECK (state IN ('open', 'applied', 'partial', 'refused', 'expired', 'withdrawn')),
  closed_at        timestamptz,            -- our clock
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT karpenter_order_generation UNIQUE (tenant_id, cluster_id, generation),
  CONSTRAINT karpenter_order_closed CHECK ((state = 'open') = (closed_at IS NULL)),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX karpenter_order_open ON karpenter_order (tenant_id, cluster_id) WHERE state = 'open';
SELECT app_isolate('karpenter_order', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE karpenter_action (
  tenant_id   uuid NOT NULL,
  order_id    uuid NOT NULL,
  position    integer NOT NULL,
  action_id   text NOT NULL,               -- pool/name or overlay/name
  absent      boolean NOT NULL,
  spec        jsonb NOT NULL,              -- the action as it is sent
  outcome     text CONSTRAINT karpenter_action_outcome CHECK (outcome IN ('applied', 'already', 'refused', 'failed')), -- NULL: no answer yet
  code        text NOT NULL DEFAULT '',
  detail      text NOT NULL DEFAULT '',
  before_spec text NOT NULL DEFAULT '',    -- JSON of the fields in question as the agent found them; empty: there was nothing
  after_spec  text NOT NULL DEFAULT '',
  writers     text[] NOT NULL DEFAULT '{}', -- of a conflict; ours is the last
  answered_at timestamptz,
  PRIMARY KEY (tenant_id, order_id, action_id),
  FOREIGN KEY (tenant_id, order_id) REFERENCES karpenter_order (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('karpenter_action', 'SELECT, INSERT, UPDATE, DELETE');

-- NodePools and NodeOverlays that an order may have made and no answer says are gone.
CREATE TABLE karpenter_object (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  key        text NOT NULL,                -- pool/name or overlay/name
  PRIMARY KEY (tenant_id, cluster_id, key),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('karpenter_object', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE karpenter_object, karpenter_action, karpenter_order, karpenter_policy;
