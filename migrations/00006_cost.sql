-- +goose Up
-- The price a node's hour was costed with, frozen. NULL = nobody knew; the hour then shows as unpriced, never as free.
CREATE TABLE node_price (
  tenant_id      uuid NOT NULL,
  cluster_id     uuid NOT NULL,
  node_uid       text NOT NULL,
  hour           timestamptz NOT NULL,
  version        integer NOT NULL,
  list_nano      bigint,
  effective_nano bigint,
  currency       text NOT NULL,
  source         text NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour, node_uid, version)
);
SELECT app_isolate('node_price', 'SELECT, INSERT');

-- One row = one transfer. Append-only: the service may not update or delete; a restatement is a new version of the hour.
CREATE TABLE cost_transfer (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,           -- UUIDv5 of (cluster, hour, version, line): posting twice posts once
  cluster_id  uuid NOT NULL,
  hour        timestamptz NOT NULL,
  version     integer NOT NULL,
  debit       text NOT NULL,           -- who bears it: workload/<id>, namespace/<name>, idle, overhead, residual
  credit      text NOT NULL,           -- node/<uid>; a negative residual is node/<uid> against residual
  kind        text NOT NULL CONSTRAINT cost_transfer_kind CHECK (kind IN ('workload', 'idle', 'overhead', 'residual')),
  resource    text NOT NULL CONSTRAINT cost_transfer_resource CHECK (resource IN ('cpu', 'memory', 'gpu')),
  workload_id uuid,
  namespace   text NOT NULL DEFAULT '',
  team        text NOT NULL DEFAULT '',
  amount_nano bigint NOT NULL CONSTRAINT cost_transfer_positive CHECK (amount_nano > 0),
  quantity    double precision NOT NULL, -- core-hours, GiB-hours or GPU-hours
  purchase    text NOT NULL,
  as_of       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT cost_transfer_workload CHECK ((kind = 'workload') OR workload_id IS NULL)
);
CREATE INDEX cost_transfer_hour ON cost_transfer (tenant_id, cluster_id, hour, version);
SELECT app_isolate('cost_transfer', 'SELECT, INSERT');

-- Which version of an hour counts, and what it adds up to. An open hour still runs or still lacks its roll-ups: it has rows in
-- cost_hour_line, computed again at every tick, and no transfers. A closed one is in the ledger; content_hash tells whether closing
-- it again would say anything new.
CREATE TABLE cost_hour (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  hour         timestamptz NOT NULL,
  state        text NOT NULL CONSTRAINT cost_hour_state CHECK (state IN ('open', 'closed')),
  version      integer NOT NULL,       -- 0 while open
  content_hash bytea NOT NULL,         -- SHA-256 of its lines
  closed_at    timestamptz NOT NULL,   -- our clock, of this version
  node_nano    bigint NOT NULL,        -- sum of node prices = sum of transfers
  unpriced_node_seconds bigint NOT NULL,
  node_seconds bigint NOT NULL,
  conflicts    jsonb NOT NULL DEFAULT '[]', -- contradictions between inputs
  PRIMARY KEY (tenant_id, cluster_id, hour),
  CONSTRAINT cost_hour_version CHECK ((state = 'open') = (version = 0))
);
SELECT app_isolate('cost_hour', 'SELECT, INSERT, UPDATE');

-- The newest version of every hour, summed over nodes: hourly charts, and what cost_day is made from. Replaced whole per hour.
CREATE TABLE cost_hour_line (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  hour        timestamptz NOT NULL,
  kind        text NOT NULL,
  resource    text NOT NULL,
  purchase    text NOT NULL,
  workload_id uuid NOT NULL,           -- all zeros where there is none
  namespace   text NOT NULL,
  team        text NOT NULL,
  amount_nano bigint NOT NULL,         -- of the priced part; negative only for residual
  quantity    double precision NOT NULL, -- core-hours, GiB-hours or GPU-hours held
  unpriced    double precision NOT NULL, -- part of quantity without a price
  measured    double precision NOT NULL, -- part of quantity whose use is known
  used        double precision NOT NULL, -- used of measured
  PRIMARY KEY (tenant_id, cluster_id, hour, kind, resource, purchase, workload_id, namespace, team)
);
SELECT app_isolate('cost_hour_line', 'SELECT, INSERT, DELETE');

-- The daily table that every view reads. Recomputed whole per (cluster, day).
CREATE TABLE cost_day (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  day         date NOT NULL,           -- UTC
  kind        text NOT NULL,
  resource    text NOT NULL,
  purchase    text NOT NULL,
  workload_id uuid NOT NULL,           -- all zeros where there is none
  namespace   text NOT NULL,
  team        text NOT NULL,
  amount_nano bigint NOT NULL,
  quantity    double precision NOT NULL,
  unpriced    double precision NOT NULL,
  measured    double precision NOT NULL,
  used        double precision NOT NULL,
  PRIMARY KEY (tenant_id, day, cluster_id, kind, resource, purchase, workload_id, namespace, team)
);
SELECT app_isolate('cost_day', 'SELECT, INSERT, DELETE');

-- Prices that a tenant sets for itself: machines of its own, contracts, places that the catalogue does not know. They come before
-- the catalogue, for hours that are not costed yet. Append-only: the newest valid_from that is not after the hour counts.
CREATE TABLE tenant_price (
  tenant_id     uuid NOT NULL,
  cloud         text NOT NULL,
  region        text NOT NULL,         -- empty: all
  instance_type text NOT NULL,
  purchase      text NOT NULL,
  valid_from    timestamptz NOT NULL,
  hour_nano     bigint NOT NULL CONSTRAINT tenant_price_range CHECK (hour_nano >= 0), -- zero is a price here: paid for elsewhere
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cloud, region, instance_type, purchase, valid_from)
);
SELECT app_isolate('tenant_price', 'SELECT, INSERT, UPDATE');

CREATE TABLE webhook (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  name          text NOT NULL,
  url           text NOT NULL,
  sealed_secret bytea NOT NULL,
  created_at    timestamptz NOT NULL,
  disabled_at   timestamptz,
  PRIMARY KEY (tenant_id, id)
);
SELECT app_isolate('webhook', 'SELECT, INSERT, UPDATE');

CREATE TABLE budget (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL,
  cluster_id  uuid,                    -- NULL: all
  namespace   text,
  team        text,
  workload_id uuid,
  amount_nano bigint NOT NULL CONSTRAINT budget_positive CHECK (amount_nano > 0),
  thresholds  integer[] NOT NULL,      -- percent, ascending
  webhook_id  uuid,
  created_at  timestamptz NOT NULL,
  deleted_at  timestamptz,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX budget_name_key ON budget (tenant_id, name) WHERE deleted_at IS NULL;
SELECT app_isolate('budget', 'SELECT, INSERT, UPDATE');

CREATE TABLE alert (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  kind        text NOT NULL,           -- budget_threshold, agent_offline, unknown_price, conflict, stuck_at_max, ...
  subject     text NOT NULL,           -- what it is about; one open alert per (kind, subject)
  severity    text NOT NULL CONSTRAINT alert_severity CHECK (severity IN ('info', 'warning', 'critical')),
  opened_at   timestamptz NOT NULL,
  resolved_at timestamptz,
  detail      jsonb NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX alert_recent ON alert (tenant_id, opened_at DESC, id DESC);
CREATE UNIQUE INDEX alert_open ON alert (tenant_id, kind, subject) WHERE resolved_at IS NULL;
SELECT app_isolate('alert', 'SELECT, INSERT, UPDATE');

CREATE TABLE webhook_delivery (
  tenant_id    uuid NOT NULL,
  id           uuid NOT NULL,
  webhook_id   uuid NOT NULL,
  alert_id     uuid,
  event_id     uuid NOT NULL,          -- Plimsoll-Event-Id: a redelivery has the same one
  event        text NOT NULL,          -- alert.opened, alert.resolved, test
  payload      text NOT NULL,          -- the body, byte for byte as signed
  state        text NOT NULL CONSTRAINT webhook_delivery_state CHECK (state IN ('pending', 'delivered', 'failed')),
  attempts     integer NOT NULL DEFAULT 0,
  last_status  integer,
  last_error   text,
  created_at   timestamptz NOT NULL,
  finished_at  timestamptz,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX webhook_delivery_recent ON webhook_delivery (tenant_id, webhook_id, created_at DESC, id DESC);
SELECT app_isolate('webhook_delivery', 'SELECT, INSERT, UPDATE');

-- +goose Down
DROP TABLE webhook_delivery, alert, budget, webhook, tenant_price, cost_day, cost_hour_line, cost_hour, cost_transfer, node_price;
