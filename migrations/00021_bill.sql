-- +goose Up
-- Bills of clouds as they were imported: a file each. What a newer file replaces stays, marked, so that an old comparison can be made again.
-- Amounts are numeric with eighteen places: bills name prices far below a nano-unit.
CREATE TABLE bill (
  tenant_id    uuid NOT NULL,
  id           uuid NOT NULL,
  name         text NOT NULL,           -- of the file
  format       text NOT NULL CONSTRAINT bill_format CHECK (format IN ('focus', 'aws_cur', 'azure', 'gcp_detail')),
  content_hash text NOT NULL,           -- SHA-256 of the content, unzipped
  bytes        bigint NOT NULL,
  lines        bigint NOT NULL,         -- rows of the file
  charges      integer NOT NULL,        -- rows of bill_charge
  currency     text NOT NULL,
  from_at      timestamptz NOT NULL,    -- of the charges
  to_at        timestamptz NOT NULL,
  billed       numeric(38, 18) NOT NULL,
  effective    numeric(38, 18) NOT NULL, -- of the lines that say it
  list         numeric(38, 18) NOT NULL,
  no_effective bigint NOT NULL,         -- lines that do not
  no_list      bigint NOT NULL,
  rounded      bigint NOT NULL,         -- values with more than eighteen places
  unread       text[] NOT NULL,         -- columns that nothing reads
  periods      jsonb NOT NULL,          -- what it holds of which account's billing period
  created_by   text NOT NULL,
  created_at   timestamptz NOT NULL,
  deleted_by   text,
  deleted_at   timestamptz,
  replaced_by  uuid,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX bill_content ON bill (tenant_id, content_hash) WHERE deleted_at IS NULL;
SELECT app_isolate('bill', 'SELECT, INSERT, UPDATE');

-- Charges of a bill with the same dimensions, a day each. A charge for longer than a day has one row.
CREATE TABLE bill_charge (
  tenant_id     uuid NOT NULL,
  bill_id       uuid NOT NULL,
  n             integer NOT NULL,
  provider      text NOT NULL,
  cloud         text NOT NULL,
  account       text NOT NULL,
  sub_account   text NOT NULL,
  category      text NOT NULL,
  correction    boolean NOT NULL,
  kind          text NOT NULL,
  service       text NOT NULL,
  region        text NOT NULL,
  zone          text NOT NULL,
  resource      text NOT NULL,
  resource_name text NOT NULL,
  instance_type text NOT NULL,
  purchase      text NOT NULL,
  commitment    text NOT NULL,
  status        text NOT NULL,
  sku           text NOT NULL,
  unit          text NOT NULL,
  invoice       text NOT NULL,
  description   text NOT NULL,
  from_at       timestamptz NOT NULL,
  to_at         timestamptz NOT NULL,
  period_from   timestamptz NOT NULL,
  period_to     timestamptz NOT NULL,
  lines         integer NOT NULL,
  first_line    integer NOT NULL,       -- of the file
  billed        numeric(38, 18) NOT NULL,
  effective     numeric(38, 18) NOT NULL,
  list          numeric(38, 18) NOT NULL,
  quantity      numeric(38, 18) NOT NULL,
  hours         numeric(38, 18) NOT NULL,
  no_effective  integer NOT NULL,
  no_list       integer NOT NULL,
  no_hours      integer NOT NULL,
  PRIMARY KEY (tenant_id, bill_id, n),
  FOREIGN KEY (tenant_id, bill_id) REFERENCES bill (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX bill_charge_day ON bill_charge (tenant_id, from_at);
SELECT app_isolate('bill_charge', 'SELECT, INSERT');

-- An order to let the bill's price stand for the estimate on machines' hours. Undone, the frozen prices count again; both are new versions
-- of the hours in the ledger.
CREATE TABLE restatement (
  tenant_id    uuid NOT NULL,
  id           uuid NOT NULL,
  from_at      timestamptz NOT NULL,
  to_at        timestamptz NOT NULL,
  machines     integer NOT NULL,
  hours        integer NOT NULL,        -- of machines
  before_nano  bigint NOT NULL,
  after_nano   bigint NOT NULL,
  bills        uuid[] NOT NULL,
  created_by   text NOT NULL,
  created_at   timestamptz NOT NULL,
  undone_by    text,
  undone_at    timestamptz,
  PRIMARY KEY (tenant_id, id)
);
SELECT app_isolate('restatement', 'SELECT, INSERT, UPDATE');

CREATE TABLE bill_price (
  tenant_id      uuid NOT NULL,
  cluster_id     uuid NOT NULL,
  node_uid       text NOT NULL,
  hour           timestamptz NOT NULL,
  restatement_id uuid NOT NULL,
  hour_nano      bigint NOT NULL CONSTRAINT bill_price_positive CHECK (hour_nano >= 0), -- per hour, which over the time it ran gives amount_nano
  amount_nano    bigint NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour, node_uid),
  FOREIGN KEY (tenant_id, restatement_id) REFERENCES restatement (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX bill_price_restatement ON bill_price (tenant_id, restatement_id);
SELECT app_isolate('bill_price', 'SELECT, INSERT, DELETE');

-- +goose Down
DROP TABLE bill_price, restatement, bill_charge, bill;
