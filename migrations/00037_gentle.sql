-- +goose Up
-- Annotations of pods that plans go by: how a pod is told to save its work, when it did so last, what it asks of a GPU's driver.
ALTER TABLE pod ADD COLUMN notes jsonb NOT NULL DEFAULT '{}';

-- Pods that were told to save their work before they were evicted, and how that went. id is the agent's: the same however often it asked.
CREATE TABLE checkpoint_call (
  tenant_id    uuid NOT NULL,
  cluster_id   uuid NOT NULL,
  id           text NOT NULL,
  at           timestamptz NOT NULL,
  pod          text NOT NULL,               -- namespace/name
  pod_uid      text NOT NULL DEFAULT '',
  workload_key text NOT NULL DEFAULT '',
  node         text NOT NULL,
  cause        text NOT NULL,               -- interruption, rebalance, consolidation, plan
  outcome      text NOT NULL,               -- done, late, failed, refused
  took_ms      bigint NOT NULL CONSTRAINT checkpoint_call_took CHECK (took_ms >= 0),
  tries        integer NOT NULL DEFAULT 0,
  detail       text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant_id, cluster_id, id),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('checkpoint_call', 'SELECT, INSERT, UPDATE, DELETE');
CREATE INDEX checkpoint_call_at ON checkpoint_call (tenant_id, cluster_id, at DESC, id);

-- +goose Down
DROP TABLE checkpoint_call;
ALTER TABLE pod DROP COLUMN notes;
