-- +goose Up
-- What a budget's amount is for, what it counts beside cluster, namespace, team and workload, and whether it acts.
ALTER TABLE budget ADD COLUMN period text NOT NULL DEFAULT 'month' CONSTRAINT budget_period CHECK (period IN ('day', 'week', 'month', 'quarter', 'year'));
ALTER TABLE budget ADD COLUMN label_key text;
ALTER TABLE budget ADD COLUMN label_value text;
ALTER TABLE budget ADD COLUMN enforced boolean NOT NULL DEFAULT false;
ALTER TABLE budget ADD COLUMN breaker_percent integer CONSTRAINT budget_breaker_percent CHECK (breaker_percent BETWEEN 110 AND 10000); -- of the usual hour; NULL: none
ALTER TABLE budget ADD COLUMN breaker_minutes integer NOT NULL DEFAULT 60 CONSTRAINT budget_breaker_minutes CHECK (breaker_minutes BETWEEN 0 AND 10080); -- 0: until somebody resets it
ALTER TABLE budget ADD COLUMN tripped_at timestamptz;     -- data time; NULL: the breaker is closed
ALTER TABLE budget ADD COLUMN tripped_until timestamptz;  -- NULL while tripped: until somebody resets it
ALTER TABLE budget ADD COLUMN hours_at timestamptz;       -- our clock, when budget_hour was made anew as a whole
ALTER TABLE budget ADD CONSTRAINT budget_label CHECK ((label_key IS NULL) = (label_value IS NULL));

-- What a budget counted per hour, kept so that a check reads six weeks in one go. The last two days are made anew at every check, all
-- once a day and when the budget changes: restated hours reach it then at the latest.
CREATE TABLE budget_hour (
  tenant_id   uuid NOT NULL,
  budget_id   uuid NOT NULL,
  hour        timestamptz NOT NULL,
  amount_nano bigint NOT NULL,
  PRIMARY KEY (tenant_id, budget_id, hour)
);
SELECT app_isolate('budget_hour', 'SELECT, INSERT, UPDATE, DELETE');

-- How a budget stood at its last check: what pages show and what planning takes as the limit.
CREATE TABLE budget_standing (
  tenant_id     uuid NOT NULL,
  budget_id     uuid NOT NULL,
  at            timestamptz NOT NULL,  -- data time
  from_at       timestamptz NOT NULL,
  to_at         timestamptz NOT NULL,
  spent_nano    bigint NOT NULL,
  known         boolean NOT NULL,      -- whether there is a forecast
  forecast_nano bigint NOT NULL,
  low_nano      bigint,                -- NULL: no band
  high_nano     bigint,
  error         double precision,      -- of the back-test; NULL: too little to test on
  origins       integer NOT NULL,
  horizon_hours integer NOT NULL,
  usual_nano    bigint NOT NULL,       -- of an hour like that of at
  allowed_nano  bigint NOT NULL,       -- per hour from at on
  PRIMARY KEY (tenant_id, budget_id)
);
SELECT app_isolate('budget_standing', 'SELECT, INSERT, UPDATE, DELETE');

-- A channel is where alerts go: a signed webhook, a Slack or Teams incoming webhook, or mail. The addresses of Slack and Teams are secrets:
-- they are in sealed_secret, url shows their host only. The secret of a webhook that is exchanged signs too until old_until.
ALTER TABLE webhook ADD COLUMN kind text NOT NULL DEFAULT 'webhook' CONSTRAINT webhook_kind CHECK (kind IN ('webhook', 'slack', 'teams', 'email'));
ALTER TABLE webhook ADD COLUMN language text NOT NULL DEFAULT 'en' CONSTRAINT webhook_language CHECK (language IN ('en', 'zh'));
ALTER TABLE webhook ADD COLUMN sealed_old bytea;
ALTER TABLE webhook ADD COLUMN old_until timestamptz;
ALTER TABLE webhook ADD CONSTRAINT webhook_old CHECK ((sealed_old IS NULL) = (old_until IS NULL));

-- Every attempt of a delivery.
CREATE TABLE webhook_attempt (
  tenant_id   uuid NOT NULL,
  delivery_id uuid NOT NULL,
  n           integer NOT NULL,        -- from 1
  at          timestamptz NOT NULL,
  status      integer,                 -- NULL: no answer
  problem     text,                    -- NULL: delivered
  took_ms     integer NOT NULL,
  PRIMARY KEY (tenant_id, delivery_id, n)
);
SELECT app_isolate('webhook_attempt', 'SELECT, INSERT');

-- Which alerts go to which channel. Every route that fits counts; a channel gets an event once.
CREATE TABLE notify_route (
  tenant_id    uuid NOT NULL,
  id           uuid NOT NULL,
  name         text NOT NULL,
  channel_id   uuid NOT NULL,
  kinds        text[] NOT NULL,        -- empty: all
  min_severity text NOT NULL CONSTRAINT notify_route_severity CHECK (min_severity IN ('info', 'warning', 'critical')),
  team         text NOT NULL DEFAULT '', -- empty: all
  resolved     boolean NOT NULL,       -- tell when it is over, too
  created_at   timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
SELECT app_isolate('notify_route', 'SELECT, INSERT, UPDATE, DELETE');

-- Alerts that nobody is told of for a while. They are opened and shown all the same.
CREATE TABLE silence (
  tenant_id  uuid NOT NULL,
  id         uuid NOT NULL,
  kinds      text[] NOT NULL,          -- empty: all
  subject    text NOT NULL DEFAULT '', -- begins with; empty: all
  team       text NOT NULL DEFAULT '', -- empty: all
  reason     text NOT NULL,
  from_at    timestamptz NOT NULL,
  until      timestamptz NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  ended_at   timestamptz,              -- by hand, before until
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT silence_span CHECK (until > from_at)
);
SELECT app_isolate('silence', 'SELECT, INSERT, UPDATE');

-- Each change of an alert's state, written with it. It is told once: pending until somebody looked at routes and silences; silenced while a
-- silence holds, and pending again when that ends and the alert is open still; told; dropped when it was over before anybody was told.
CREATE TABLE alert_event (
  tenant_id  uuid NOT NULL,
  id         uuid NOT NULL,            -- of the event: Plimsoll-Event-Id of all its deliveries
  alert_id   uuid NOT NULL,
  event      text NOT NULL CONSTRAINT alert_event_event CHECK (event IN ('alert.opened', 'alert.resolved')),
  at         timestamptz NOT NULL,     -- our clock
  state      text NOT NULL CONSTRAINT alert_event_state CHECK (state IN ('pending', 'silenced', 'told', 'dropped')),
  silence_id uuid,
  channels   integer NOT NULL DEFAULT 0, -- told
  told_at    timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT alert_event_once UNIQUE (tenant_id, alert_id, event)
);
CREATE INDEX alert_event_open ON alert_event (tenant_id, at, id) WHERE state IN ('pending', 'silenced');
SELECT app_isolate('alert_event', 'SELECT, INSERT, UPDATE, DELETE');

-- Who gets a digest, and when. Hours are of the tenant's zone.
CREATE TABLE notify_digest (
  tenant_id  uuid NOT NULL,
  channel_id uuid NOT NULL,
  every      text NOT NULL CONSTRAINT notify_digest_every CHECK (every IN ('day', 'week')),
  hour       integer NOT NULL CONSTRAINT notify_digest_hour CHECK (hour BETWEEN 0 AND 23),
  sent_for   timestamptz,              -- the end of the period that was told last
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, channel_id, every)
);
SELECT app_isolate('notify_digest', 'SELECT, INSERT, UPDATE, DELETE');

-- Days that cost other than expected, with why. The figures are those of the day it was found; a restated day is judged anew.
CREATE TABLE anomaly (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  scope         text NOT NULL CONSTRAINT anomaly_scope CHECK (scope IN ('tenant', 'cluster', 'team', 'namespace', 'workload')),
  scope_key     text NOT NULL,         -- id or name; empty for the tenant
  day           date NOT NULL,         -- UTC
  direction     text NOT NULL CONSTRAINT anomaly_direction CHECK (direction IN ('up', 'down')),
  actual_nano   bigint NOT NULL,
  expected_nano bigint NOT NULL,
  low_nano      bigint NOT NULL,
  high_nano     bigint NOT NULL,
  score         double precision NOT NULL,
  days          integer NOT NULL,      -- that it was expected from
  contributors  jsonb NOT NULL,
  decisions     jsonb NOT NULL,
  found_at      timestamptz NOT NULL,  -- our clock
  acked_by      text,
  acked_at      timestamptz,
  note          text,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT anomaly_once UNIQUE (tenant_id, scope, scope_key, day)
);
CREATE INDEX anomaly_recent ON anomaly (tenant_id, day DESC, id DESC);
SELECT app_isolate('anomaly', 'SELECT, INSERT, UPDATE, DELETE');
-- Up to which day a tenant's costs were looked over.
CREATE TABLE anomaly_progress (
  tenant_id uuid NOT NULL PRIMARY KEY,
  day       date NOT NULL
);
SELECT app_isolate('anomaly_progress', 'SELECT, INSERT, UPDATE');

-- +goose Down
DROP TABLE anomaly_progress, anomaly, notify_digest, alert_event, silence, notify_route, webhook_attempt, budget_standing, budget_hour;
ALTER TABLE webhook DROP CONSTRAINT webhook_old, DROP COLUMN old_until, DROP COLUMN sealed_old, DROP COLUMN language, DROP COLUMN kind;
ALTER TABLE budget DROP CONSTRAINT budget_label, DROP COLUMN hours_at, DROP COLUMN tripped_until, DROP COLUMN tripped_at, DROP COLUMN breaker_minutes, DROP COLUMN breaker_percent,
  DROP COLUMN enforced, DROP COLUMN label_value, DROP COLUMN label_key, DROP COLUMN period;
