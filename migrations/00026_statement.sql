-- +goose Up
-- How a tenant counts its year and its weeks, and who carries idle in its statements.
ALTER TABLE tenant ADD COLUMN fiscal_month smallint NOT NULL DEFAULT 1 CONSTRAINT tenant_fiscal_month CHECK (fiscal_month BETWEEN 1 AND 12);
ALTER TABLE tenant ADD COLUMN week_start smallint NOT NULL DEFAULT 1 CONSTRAINT tenant_week_start CHECK (week_start BETWEEN 0 AND 6); -- 0: Sunday
ALTER TABLE tenant ADD COLUMN idle_scope text NOT NULL DEFAULT 'separate' CONSTRAINT tenant_idle_scope CHECK (idle_scope IN ('separate', 'cluster', 'node'));
ALTER TABLE tenant ADD COLUMN idle_spread text NOT NULL DEFAULT 'weighted' CONSTRAINT tenant_idle_spread CHECK (idle_spread IN ('weighted', 'even'));

-- What all teams use and nobody owns: costs of a namespace or a team that statements divide over the others.
CREATE TABLE shared_cost_rule (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL,
  pick        text NOT NULL CONSTRAINT shared_cost_rule_pick CHECK (pick IN ('namespace', 'team')),
  value       text NOT NULL,
  spread      text NOT NULL CONSTRAINT shared_cost_rule_spread CHECK (spread IN ('even', 'weighted', 'fixed')),
  parts       jsonb NOT NULL DEFAULT '{}', -- of fixed: team to whole parts
  created_by  text NOT NULL,
  created_at  timestamptz NOT NULL,
  deleted_at  timestamptz,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX shared_cost_rule_name ON shared_cost_rule (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX shared_cost_rule_picks ON shared_cost_rule (tenant_id, pick, value) WHERE deleted_at IS NULL;
SELECT app_isolate('shared_cost_rule', 'SELECT, INSERT, UPDATE');

-- Statements as they were issued, append-only. A correction is a new version; every version stays readable as it was sent.
CREATE TABLE statement (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  month       date NOT NULL,           -- first day, in the tenant's zone of that moment
  scope       text NOT NULL CONSTRAINT statement_scope CHECK (scope IN ('tenant', 'team')),
  team        text NOT NULL DEFAULT '',
  version     integer NOT NULL,
  kind        text NOT NULL CONSTRAINT statement_kind CHECK (kind IN ('showback', 'chargeback')),
  from_at     timestamptz NOT NULL,
  to_at       timestamptz NOT NULL,
  as_of       timestamptz NOT NULL,    -- our clock: the versions of hours that it was made from
  total_nano  bigint NOT NULL,
  document    jsonb NOT NULL,
  issued_by   text NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT statement_version UNIQUE (tenant_id, month, scope, team, version)
);
SELECT app_isolate('statement', 'SELECT, INSERT');

-- What each hour of a workload with a policy cost, and what other rules would have cost, in the prices of that hour. Made again when the
-- hour is restated.
CREATE TABLE saving_hour (
  tenant_id      uuid NOT NULL,
  cluster_id     uuid NOT NULL,
  hour           timestamptz NOT NULL,
  workload_id    uuid NOT NULL,
  version        integer NOT NULL,     -- of cost_hour
  amount_nano    bigint NOT NULL,      -- of the ledger
  unit_nano      bigint,               -- of one replica for an hour; NULL: never seen
  replicas_milli bigint,               -- mean; NULL: nobody said
  max_replicas   integer NOT NULL,     -- of its policy
  static_nano    bigint,               -- at max all the time
  shadow_nano    bigint,               -- with a HorizontalPodAutoscaler at 70 %; NULL: no utilisation known
  stayed_nano    bigint,               -- with the counts as they were before the decisions in force; NULL: none was
  promised_nano  bigint NOT NULL,      -- by these decisions
  cooldown_nano  bigint,               -- of amount: held only by a cooldown or a stabilisation window
  starting_nano  bigint,               -- of amount: replicas on their way to ready
  ups            integer NOT NULL,
  downs          integer NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour, workload_id)
);
SELECT app_isolate('saving_hour', 'SELECT, INSERT, DELETE');

-- +goose Down
DROP TABLE saving_hour, statement, shared_cost_rule;
ALTER TABLE tenant DROP COLUMN idle_spread, DROP COLUMN idle_scope, DROP COLUMN week_start, DROP COLUMN fiscal_month;
