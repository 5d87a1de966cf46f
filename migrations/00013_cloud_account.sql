-- +goose Up
-- How a tenant lets Plimsoll read its account at a cloud. What it takes to get in is sealed; the subject is its name without secrets.
CREATE TABLE cloud_account (
  tenant_id      uuid NOT NULL,
  id             uuid NOT NULL,
  cloud          text NOT NULL CONSTRAINT cloud_account_cloud CHECK (cloud IN ('aws', 'azure', 'gcp')),
  name           text NOT NULL,
  subject        text NOT NULL,           -- role, application or service account
  external_id    text NOT NULL,           -- ours, that the role at AWS asks for; empty elsewhere
  regions        text[] NOT NULL CONSTRAINT cloud_account_regions CHECK (cardinality(regions) BETWEEN 1 AND 40),
  sealed         bytea NOT NULL,
  state          text NOT NULL DEFAULT 'new' CONSTRAINT cloud_account_state CHECK (state IN ('new', 'ok', 'failing')),
  failures       integer NOT NULL DEFAULT 0 CONSTRAINT cloud_account_failures CHECK (failures >= 0), -- in a row
  problem        text NOT NULL DEFAULT '', -- of the newest failure, for people
  refreshed_at   timestamptz,             -- of the newest refresh that was complete
  tried_at       timestamptz,
  next_at        timestamptz NOT NULL,    -- when to try again
  outcome        jsonb NOT NULL DEFAULT '{}', -- counts of the newest complete refresh
  zones          jsonb NOT NULL DEFAULT '{}', -- zone as the account names it -> its id, the same for all accounts
  created_by     text NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT cloud_account_name UNIQUE (tenant_id, name),
  CONSTRAINT cloud_account_outcome CHECK ((state = 'failing') = (failures > 0))
);
CREATE INDEX cloud_account_due ON cloud_account (tenant_id, next_at);
SELECT app_isolate('cloud_account', 'SELECT, INSERT, UPDATE, DELETE');

-- What clouds list on demand: public, so of no tenant. One row per change; a price holds until the next one. What vanishes from a
-- list keeps its last price and grows old by seen_at. Unknown prices have no row.
CREATE TABLE price_list (
  cloud         text NOT NULL,
  region        text NOT NULL,
  instance_type text NOT NULL,
  valid_from    timestamptz NOT NULL,
  hour_nano     bigint NOT NULL CONSTRAINT price_list_positive CHECK (hour_nano > 0),
  price_id      text NOT NULL,            -- the cloud's own
  source        text NOT NULL,
  seen_at       timestamptz NOT NULL,
  PRIMARY KEY (cloud, region, instance_type, valid_from)
);
SELECT app_reference('price_list', 'SELECT, INSERT, UPDATE');

-- Machines as clouds describe them, for those that the catalogue inside the binary lacks.
CREATE TABLE machine_type (
  cloud          text NOT NULL,
  name           text NOT NULL,
  arch           text NOT NULL,
  cpu_milli      bigint NOT NULL,
  mem_mib        bigint NOT NULL,
  gpu_model      text NOT NULL,
  gpu_count      integer NOT NULL,
  gpu_memory_mib bigint NOT NULL,
  gpu_name       text NOT NULL,           -- as the cloud spells it
  network_mbps   bigint NOT NULL,         -- 0: not told
  local_disk_gb  bigint NOT NULL,
  interconnect   text NOT NULL,
  seen_at        timestamptz NOT NULL,
  PRIMARY KEY (cloud, name),
  CONSTRAINT machine_type_size CHECK (cpu_milli > 0 AND mem_mib > 0 AND gpu_count >= 0)
);
SELECT app_reference('machine_type', 'SELECT, INSERT, UPDATE');

-- How fresh each list is.
CREATE TABLE price_source (
  cloud        text NOT NULL,
  region       text NOT NULL,
  kind         text NOT NULL CONSTRAINT price_source_kind CHECK (kind IN ('on_demand', 'spot')),
  source       text NOT NULL,
  refreshed_at timestamptz NOT NULL,      -- of the newest complete list
  listed       integer NOT NULL,          -- rows with a price
  changed      integer NOT NULL,          -- of these, prices that were new
  skipped      jsonb NOT NULL,            -- reason -> rows without a price, or left out
  doubted      jsonb NOT NULL,            -- prices that were not believed, at most a hundred
  PRIMARY KEY (cloud, region, kind)
);
SELECT app_reference('price_source', 'SELECT, INSERT, UPDATE');

-- +goose Down
DROP TABLE price_source, machine_type, price_list, cloud_account;
