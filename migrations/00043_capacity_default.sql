-- +goose Up
-- The capacity policy of a tenant's clusters that have none of their own. Who changed it before is in the audit log.
CREATE TABLE capacity_default (
  tenant_id   uuid NOT NULL PRIMARY KEY REFERENCES tenant (tenant_id) ON DELETE CASCADE,
  version     integer NOT NULL CONSTRAINT capacity_default_version CHECK (version > 0),
  document    jsonb NOT NULL,
  updated_by  text NOT NULL,
  updated_at  timestamptz NOT NULL
);
SELECT app_isolate('capacity_default', 'SELECT, INSERT, UPDATE, DELETE');

-- A cluster that went back to its tenant's default keeps its row: versions only rise, so that what was read before is never taken for what is there now.
ALTER TABLE capacity_policy ADD COLUMN inherits boolean NOT NULL DEFAULT false;

-- A rollout to the clusters that take the default: done, it is the default. NULL: it becomes the policy of each of its clusters.
ALTER TABLE capacity_rollout ADD COLUMN default_version integer CONSTRAINT capacity_rollout_default CHECK (default_version >= 0); -- that was read; 0: there was none
ALTER TABLE capacity_rollout_part ADD COLUMN base_default integer NOT NULL DEFAULT 0; -- version of the default that the cluster took; 0: none

-- What the node says of itself and its GPUs; empty: not told.
ALTER TABLE node
  ADD COLUMN kubelet_version text NOT NULL DEFAULT '',
  ADD COLUMN gpu_driver text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE node DROP COLUMN gpu_driver, DROP COLUMN kubelet_version;
ALTER TABLE capacity_rollout_part DROP COLUMN base_default;
ALTER TABLE capacity_rollout DROP COLUMN default_version;
DELETE FROM capacity_policy WHERE inherits;
ALTER TABLE capacity_policy DROP COLUMN inherits;
DROP TABLE capacity_default;
