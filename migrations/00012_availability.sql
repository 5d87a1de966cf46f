-- +goose Up
-- What a tenant saw of the supply of machines, and what was learned from it. docs/availability.md tells the meaning.

-- One row per tenant: the lock under which its model changes.
CREATE TABLE availability_head (
  tenant_id  uuid NOT NULL,
  learned_at timestamptz NOT NULL,   -- our clock
  PRIMARY KEY (tenant_id)
);
SELECT app_isolate('availability_head', 'SELECT, INSERT, UPDATE');

-- How far each cluster has been read, in its data time.
CREATE TABLE availability_cursor (
  tenant_id  uuid NOT NULL,
  cluster_id uuid NOT NULL,
  read_to    timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('availability_cursor', 'SELECT, INSERT, UPDATE');

-- Evidence, each piece once: the source names what it came from, so that reading twice learns once. Kept for 90 days.
CREATE TABLE availability_event (
  tenant_id     uuid NOT NULL,
  source        text NOT NULL,       -- had/<cluster>/<node>, loss/<cluster>/<node>, end/<cluster>/<node>, dry/<cluster>/<stream>/<epoch>/<seq>/<position>
  cluster_id    uuid NOT NULL,
  at            timestamptz NOT NULL, -- the cluster's data time
  cloud         text NOT NULL,
  region        text NOT NULL,
  zone          text NOT NULL,
  instance_type text NOT NULL,
  purchase      text NOT NULL,
  kind          text NOT NULL CONSTRAINT availability_event_kind CHECK (kind IN ('had', 'running', 'notice', 'lost', 'exhausted')),
  machines      integer NOT NULL CONSTRAINT availability_event_machines CHECK (machines >= 0),
  of_machines   integer NOT NULL CONSTRAINT availability_event_of CHECK (of_machines >= 0),
  PRIMARY KEY (tenant_id, source)
);
CREATE INDEX availability_event_offering ON availability_event (tenant_id, cloud, region, instance_type, zone, at);
CREATE INDEX availability_event_at ON availability_event (tenant_id, at);
SELECT app_isolate('availability_event', 'SELECT, INSERT, DELETE');

-- The model: one row per offering and per wider level (type, region, zone), by key. The room availability reads and writes the state.
CREATE TABLE availability_state (
  tenant_id  uuid NOT NULL,
  key        text NOT NULL,
  state      jsonb NOT NULL,
  changed_at timestamptz NOT NULL,   -- our clock
  PRIMARY KEY (tenant_id, key)
);
SELECT app_isolate('availability_state', 'SELECT, INSERT, UPDATE, DELETE');

-- Events name their node; without this each would look through all nodes that the cluster ever had.
CREATE INDEX node_name ON node (tenant_id, cluster_id, name, started_at);

-- +goose Down
DROP INDEX node_name;
DROP TABLE availability_state, availability_event, availability_cursor, availability_head;
