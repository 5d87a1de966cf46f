-- +goose Up
-- Spot prices of everybody: tables without a tenant. What changed when is kept packed, one row per pool and month, for years:
-- a change takes about 7 bytes with everything. docs/adr/0010-spot-history.md tells why so.

-- Where machines are sold under one Spot price, and the newest state of each.
CREATE TABLE spot_pool (
  id             serial PRIMARY KEY,
  cloud          text NOT NULL,
  region         text NOT NULL,
  zone           text NOT NULL,           -- empty: the price holds for the region
  instance_type  text NOT NULL,
  product        text NOT NULL,           -- Linux/UNIX, ...; accelerator: the price of the accelerator alone
  at             timestamptz NOT NULL,    -- of the newest change
  spot_nano      bigint,                  -- per machine-hour since then; NULL: none listed
  on_demand_nano bigint,                  -- as the same source lists it; NULL: none listed
  seen_at        timestamptz NOT NULL,    -- when a source was last heard about the pool
  source         text NOT NULL,           -- who was
  changes        integer NOT NULL DEFAULT 0,
  guard_since    timestamptz,             -- history before this does not judge new prices: a person confirmed a new level
  CONSTRAINT spot_pool_key UNIQUE (cloud, region, instance_type, zone, product),
  CONSTRAINT spot_pool_price CHECK (spot_nano > 0 AND on_demand_nano > 0),
  CONSTRAINT spot_pool_changes CHECK (changes >= 0)
) WITH (fillfactor = 80);                 -- seen_at moves at every look
SELECT app_reference('spot_pool', 'SELECT, INSERT, UPDATE, DELETE');
GRANT USAGE, SELECT ON SEQUENCE spot_pool_id_seq TO plimsoll_service;

CREATE TABLE spot_chunk (
  pool_id integer NOT NULL,
  month   date NOT NULL,                  -- its first day
  body    bytea NOT NULL,                 -- the month's changes: services/store/spot_codec.go
  PRIMARY KEY (pool_id, month),
  CONSTRAINT spot_chunk_pool FOREIGN KEY (pool_id) REFERENCES spot_pool (id),
  CONSTRAINT spot_chunk_month CHECK (month = date_trunc('month', month))
);
ALTER TABLE spot_chunk ALTER COLUMN body SET STORAGE EXTERNAL; -- packed already
SELECT app_reference('spot_chunk', 'SELECT, INSERT, UPDATE, DELETE');

-- Prices that the guard did not believe. They are never used.
CREATE TABLE spot_quarantine (
  id             bigserial PRIMARY KEY,
  cloud          text NOT NULL,
  region         text NOT NULL,
  zone           text NOT NULL,
  instance_type  text NOT NULL,
  product        text NOT NULL,
  at             timestamptz NOT NULL,
  spot           text NOT NULL,           -- as the source wrote it
  on_demand      text NOT NULL,
  expected_nano  bigint,                  -- what it was held against
  reason         text NOT NULL CONSTRAINT spot_quarantine_reason CHECK (reason IN
    ('not_positive', 'not_a_number', 'too_high', 'currency', 'off_history', 'off_on_demand', 'off_catalogue', 'conflict')),
  source         text NOT NULL,
  found_at       timestamptz NOT NULL,
  state          text NOT NULL DEFAULT 'open' CONSTRAINT spot_quarantine_state CHECK (state IN ('open', 'accepted', 'dismissed')),
  decided_at     timestamptz,
  CONSTRAINT spot_quarantine_decided CHECK ((state = 'open') = (decided_at IS NULL)),
  CONSTRAINT spot_quarantine_key UNIQUE (cloud, region, instance_type, zone, product, at, spot, on_demand, source)
);
CREATE INDEX spot_quarantine_open ON spot_quarantine (found_at) WHERE state = 'open';
SELECT app_reference('spot_quarantine', 'SELECT, INSERT, UPDATE, DELETE');
GRANT USAGE, SELECT ON SEQUENCE spot_quarantine_id_seq TO plimsoll_service;

-- +goose Down
DROP TABLE spot_quarantine, spot_chunk, spot_pool;
