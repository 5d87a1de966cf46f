-- +goose Up
-- The size and bounds of a group as they were seen last, or as we asked for them since.
ALTER TABLE cloud_group
  ADD COLUMN seen_desired integer,
  ADD COLUMN seen_min integer,
  ADD COLUMN seen_max integer,              -- -1: the cloud knows none
  ADD COLUMN seen_at timestamptz,           -- our clock; NULL: never
  ADD CONSTRAINT cloud_group_seen CHECK (num_nulls(seen_desired, seen_min, seen_max, seen_at) IN (0, 4));

-- Changes of a group's size or bounds that we did not make; a day of them is kept.
CREATE TABLE cloud_group_change (
  tenant_id  uuid NOT NULL,
  group_id   uuid NOT NULL,
  id         uuid NOT NULL,                 -- v7
  at         timestamptz NOT NULL,          -- our clock, when it was seen
  field      text NOT NULL CONSTRAINT cloud_group_change_field CHECK (field IN ('desired', 'min', 'max')),
  before_size integer NOT NULL,
  after_size integer NOT NULL,
  undid      boolean NOT NULL,              -- what it changed was the size that we had asked for
  PRIMARY KEY (tenant_id, group_id, id),
  FOREIGN KEY (tenant_id, group_id) REFERENCES cloud_group (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('cloud_group_change', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE cloud_group_change;
ALTER TABLE cloud_group DROP CONSTRAINT cloud_group_seen, DROP COLUMN seen_at, DROP COLUMN seen_max, DROP COLUMN seen_min, DROP COLUMN seen_desired;
