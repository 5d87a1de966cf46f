-- +goose Up
-- What keeps the market in order over years: sealed keys can be sealed anew, and what clouds say of reserved capacity and of the
-- chance to get Spot machines is kept.

-- A change of PLIMSOLL_SECRET_KEY seals signing keys anew; nothing else of a key ever changes.
GRANT UPDATE (sealed_private) ON signing_key TO plimsoll_service;

-- Machines that a cloud holds free for a tenant's account, as the newest complete refresh listed them. What such places cost is a
-- commitment (kinds aws_capacity_reservation and aws_capacity_block) once a person imported it; here stands what there is.
CREATE TABLE capacity_stock (
  tenant_id     uuid NOT NULL,
  account_id    uuid NOT NULL,
  ref           text NOT NULL,            -- the cloud's id
  cloud         text NOT NULL,
  region        text NOT NULL,
  zone          text NOT NULL,            -- as the account names it; empty: not told
  instance_type text NOT NULL,
  total         bigint NOT NULL,          -- machines
  available     bigint,                   -- not in use; NULL: the cloud does not say
  block         boolean NOT NULL,         -- paid in advance for its whole term
  starts_at     timestamptz,
  ends_at       timestamptz,              -- NULL: until it is cancelled
  state         text NOT NULL,            -- the cloud's word for it
  seen_at       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, account_id, ref),
  CONSTRAINT capacity_stock_account FOREIGN KEY (tenant_id, account_id) REFERENCES cloud_account (tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT capacity_stock_count CHECK (total >= 0 AND available >= 0)
);
SELECT app_isolate('capacity_stock', 'SELECT, INSERT, UPDATE, DELETE');

-- How likely a cloud itself holds a request for Spot machines to be granted, 1 to 10, as an account asked it.
CREATE TABLE placement_score (
  tenant_id     uuid NOT NULL,
  cloud         text NOT NULL,
  region        text NOT NULL,
  zone          text NOT NULL,            -- the cloud's id of the zone; empty: the region as a whole
  instance_type text NOT NULL,
  machines      bigint NOT NULL,          -- how many were asked for
  score         smallint NOT NULL,
  seen_at       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cloud, region, instance_type, zone),
  CONSTRAINT placement_score_range CHECK (score BETWEEN 1 AND 10),
  CONSTRAINT placement_score_machines CHECK (machines > 0)
);
SELECT app_isolate('placement_score', 'SELECT, INSERT, UPDATE, DELETE');

-- Commitments that a cloud lists for an account, but of which it does not say all of the cost: nothing must look free that is not, so
-- they count for nothing until a person adds what is missing. As the newest complete refresh listed them.
CREATE TABLE commitment_pending (
  tenant_id     uuid NOT NULL,
  account_id    uuid NOT NULL,
  ref           text NOT NULL,            -- the cloud's id
  kind          text NOT NULL,
  reason        text NOT NULL CONSTRAINT commitment_pending_reason CHECK (reason IN ('no_cost', 'no_spend', 'not_valid')),
  problem       text NOT NULL,            -- of one that is not valid
  region        text NOT NULL,
  zone          text NOT NULL,
  instance_type text NOT NULL,
  family        text NOT NULL,
  resource      text NOT NULL,
  gpu_model     text NOT NULL,
  quantity      bigint NOT NULL,          -- as of a commitment
  starts_at     timestamptz NOT NULL,
  ends_at       timestamptz,
  seen_at       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, account_id, ref),
  CONSTRAINT commitment_pending_account FOREIGN KEY (tenant_id, account_id) REFERENCES cloud_account (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('commitment_pending', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE commitment_pending, placement_score, capacity_stock;
REVOKE UPDATE (sealed_private) ON signing_key FROM plimsoll_service;
