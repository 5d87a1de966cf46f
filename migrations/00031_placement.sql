-- +goose Up
-- What the cloud calls a machine, which joins it to its row on the bill, and the taints that keep pods off it; NULL: an agent that does not tell.
ALTER TABLE node ADD COLUMN provider_id text NOT NULL DEFAULT '', ADD COLUMN taints jsonb;

-- Where a pod may run: a row of placement; 0: not told.
ALTER TABLE pod ADD COLUMN placement bigint NOT NULL DEFAULT 0;

-- Rules of pods' specs, each once per cluster: pods of a workload share one. id is a hash of the rules.
CREATE TABLE placement (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  id          bigint NOT NULL,
  rules       jsonb NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('placement', 'SELECT, INSERT, DELETE');

-- A cluster's PodDisruptionBudgets as they were told last.
CREATE TABLE disruption_limit (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  namespace   text NOT NULL,
  name        text NOT NULL,
  selector    jsonb NOT NULL,
  allowed     integer NOT NULL CONSTRAINT disruption_limit_allowed CHECK (allowed >= 0), -- evictions that it allows now
  healthy     integer NOT NULL,
  wanted      integer NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, namespace, name),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('disruption_limit', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE disruption_limit, placement;
ALTER TABLE pod DROP COLUMN placement;
ALTER TABLE node DROP COLUMN provider_id, DROP COLUMN taints;
