-- +goose Up
-- Until when the hours of a machine or pod are to be looked at again: an end that is told late moves from where costing took it to be. NULL: until its end.
ALTER TABLE node ADD COLUMN touched_to timestamptz;
ALTER TABLE pod ADD COLUMN touched_to timestamptz;

-- What was paid for a commitment in an hour, kept when the first cluster closes the hour and never changed: a commitment that is changed or deleted
-- later was paid for as it was. Usage and what is unused of it in the hour add up to bought_nano.
CREATE TABLE commitment_purchase (
  tenant_id      uuid NOT NULL,
  hour           timestamptz NOT NULL,
  commitment_id  uuid NOT NULL,
  upfront_nano   bigint NOT NULL,        -- paid once, in the hour in which the term begins
  recurring_nano bigint NOT NULL,        -- paid for this hour
  bought_nano    bigint NOT NULL,        -- amortised: recurring, and the hour's part of what was paid up front
  millis         bigint NOT NULL CONSTRAINT commitment_purchase_millis CHECK (millis > 0), -- of the term within the hour
  quantity       bigint NOT NULL,        -- as in commitment
  team           text NOT NULL,          -- its owner
  as_of          timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, hour, commitment_id),
  CONSTRAINT commitment_purchase_amounts CHECK (upfront_nano >= 0 AND recurring_nano >= 0 AND bought_nano >= 0)
);
SELECT app_isolate('commitment_purchase', 'SELECT, INSERT');

-- What a machine's hour claimed of a commitment and does not cost any more, because its end was told late: it is unused again. Replaced whole per hour and cluster.
CREATE TABLE commitment_release (
  tenant_id     uuid NOT NULL,
  hour          timestamptz NOT NULL,
  cluster_id    uuid NOT NULL,
  node_uid      text NOT NULL,
  commitment_id uuid NOT NULL,
  resource      text NOT NULL,
  amount_nano   bigint NOT NULL CONSTRAINT commitment_release_amount CHECK (amount_nano > 0), -- of the claim's
  PRIMARY KEY (tenant_id, hour, cluster_id, node_uid, commitment_id, resource)
);
SELECT app_isolate('commitment_release', 'SELECT, INSERT, DELETE');

-- Bills that come in parts, because they are large or the line is bad: what has arrived stays for a day. A finished one keeps the bill's id, so that finishing
-- it twice imports it once.
CREATE TABLE bill_upload (
  tenant_id   uuid NOT NULL,
  id          uuid NOT NULL,
  key         text NOT NULL,           -- SHA-256 of the file as it is sent: who sends it again goes on where it stopped
  name        text NOT NULL,
  format      text NOT NULL,           -- empty: found out
  mode        text NOT NULL CONSTRAINT bill_upload_mode CHECK (mode IN ('new', 'add', 'replace')),
  bytes       bigint NOT NULL CONSTRAINT bill_upload_bytes CHECK (bytes > 0), -- of the file as it is sent
  part_bytes  integer NOT NULL CONSTRAINT bill_upload_part_bytes CHECK (part_bytes > 0),
  bill_id     uuid,                    -- once it is finished
  created_by  text NOT NULL,
  created_at  timestamptz NOT NULL,
  expires_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX bill_upload_key ON bill_upload (tenant_id, key);
SELECT app_isolate('bill_upload', 'SELECT, INSERT, UPDATE, DELETE');

CREATE TABLE bill_upload_part (
  tenant_id   uuid NOT NULL,
  upload_id   uuid NOT NULL,
  n           integer NOT NULL CONSTRAINT bill_upload_part_n CHECK (n >= 0),
  hash        text NOT NULL,           -- SHA-256
  payload     bytea NOT NULL,
  PRIMARY KEY (tenant_id, upload_id, n),
  FOREIGN KEY (tenant_id, upload_id) REFERENCES bill_upload (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE bill_upload_part ALTER COLUMN payload SET STORAGE EXTERNAL; -- zipped already
SELECT app_isolate('bill_upload_part', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE bill_upload_part, bill_upload;
DROP TABLE commitment_release;
DROP TABLE commitment_purchase;
ALTER TABLE node DROP COLUMN touched_to;
ALTER TABLE pod DROP COLUMN touched_to;
