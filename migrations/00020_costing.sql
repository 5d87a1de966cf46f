-- +goose Up
-- How the GPUs of a machine are given out, and what a pod asks of them: lists of groups and of shares, as the agent contract has them.
-- Empty: whole GPUs, and gpu_milli thousandths.
ALTER TABLE node ADD COLUMN gpus jsonb NOT NULL DEFAULT '[]';
ALTER TABLE pod ADD COLUMN gpus jsonb NOT NULL DEFAULT '[]';

-- From when on something became known that the costing of closed hours has not seen. Costing sets it to NULL. What is there already has
-- been costed; what comes is news from its beginning on.
ALTER TABLE node ADD COLUMN touched_from timestamptz;
ALTER TABLE node ALTER COLUMN touched_from SET DEFAULT '-infinity';
ALTER TABLE pod ADD COLUMN touched_from timestamptz;
ALTER TABLE pod ALTER COLUMN touched_from SET DEFAULT '-infinity';
CREATE INDEX node_touched ON node (tenant_id, cluster_id) WHERE touched_from IS NOT NULL;
CREATE INDEX pod_touched ON pod (tenant_id, cluster_id) WHERE touched_from IS NOT NULL;

-- Closed hours that late data has touched, until they are costed again.
CREATE TABLE cost_touched (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  hour        timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('cost_touched', 'SELECT, INSERT, DELETE');

-- When a pod that holds resources could not run, and why.
CREATE TABLE pod_trouble (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  uid         text NOT NULL,
  from_at     timestamptz NOT NULL,
  to_at       timestamptz,             -- NULL: still
  reason      text NOT NULL,           -- in the cluster's words
  PRIMARY KEY (tenant_id, cluster_id, uid, from_at),
  FOREIGN KEY (tenant_id, cluster_id, uid) REFERENCES pod (tenant_id, cluster_id, uid) ON DELETE CASCADE
);
CREATE UNIQUE INDEX pod_trouble_open ON pod_trouble (tenant_id, cluster_id, uid) WHERE to_at IS NULL;
SELECT app_isolate('pod_trouble', 'SELECT, INSERT, UPDATE, DELETE');

-- Which container held which GPU, or which part of one, as the kubelet of its node said.
CREATE TABLE gpu_holding (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  node        text NOT NULL,           -- name
  namespace   text NOT NULL,
  pod         text NOT NULL,           -- name
  holding     text NOT NULL,           -- container, device, instance, profile and claim in one
  container   text NOT NULL,
  share       jsonb NOT NULL,
  from_at     timestamptz NOT NULL,
  to_at       timestamptz,             -- NULL: still
  PRIMARY KEY (tenant_id, cluster_id, node, namespace, pod, holding, from_at),
  FOREIGN KEY (tenant_id, cluster_id) REFERENCES cluster (tenant_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX gpu_holding_open ON gpu_holding (tenant_id, cluster_id, node, namespace, pod, holding) WHERE to_at IS NULL;
CREATE INDEX gpu_holding_live ON gpu_holding (tenant_id, cluster_id, from_at, to_at);
SELECT app_isolate('gpu_holding', 'SELECT, INSERT, UPDATE, DELETE');

-- What parts of an hour's costs were for: broken and warm-idle time of workloads, and the idle that MIG layouts make. They are parts of
-- rows of cost_hour_line, never beside them. Replaced whole per hour.
CREATE TABLE cost_hour_cause (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  hour        timestamptz NOT NULL,
  cause       text NOT NULL,           -- broken, warm_idle, mig_fragment, mig_unusable
  reason      text NOT NULL,           -- of broken time
  kind        text NOT NULL,
  resource    text NOT NULL,           -- of mig_unusable: gpu_compute or gpu_memory
  purchase    text NOT NULL,
  workload_id uuid NOT NULL,           -- all zeros where there is none
  namespace   text NOT NULL,
  team        text NOT NULL,
  amount_nano bigint NOT NULL,
  quantity    double precision NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour, cause, reason, kind, resource, purchase, workload_id, namespace, team)
);
SELECT app_isolate('cost_hour_cause', 'SELECT, INSERT, DELETE');

-- The lines of a closed hour by machine, packed (store/cost_detail.go): what the transfers of cost_transfer, which are per workload, are the
-- sums of. Append-only like these. Hours closed before have every line as a transfer of its own, with the machine in credit.
CREATE TABLE cost_detail (
  tenant_id   uuid NOT NULL,
  cluster_id  uuid NOT NULL,
  hour        timestamptz NOT NULL,
  version     integer NOT NULL,
  as_of       timestamptz NOT NULL,    -- our clock, when this version was made
  lines       integer NOT NULL,
  payload     bytea NOT NULL,
  PRIMARY KEY (tenant_id, cluster_id, hour, version)
);
ALTER TABLE cost_detail ALTER COLUMN payload SET STORAGE EXTERNAL; -- packed already
SELECT app_isolate('cost_detail', 'SELECT, INSERT');

-- Which regression the prices of the hour's machines were split by, as {cloud: version}, and what each said: an hour that is costed again
-- is split as it was.
ALTER TABLE cost_hour ADD COLUMN weights jsonb NOT NULL DEFAULT '{}';
CREATE TABLE cost_weights (
  tenant_id   uuid NOT NULL,
  version     text NOT NULL,
  weights     jsonb NOT NULL,
  PRIMARY KEY (tenant_id, version)
);
SELECT app_isolate('cost_weights', 'SELECT, INSERT');

-- +goose Down
ALTER TABLE cost_hour DROP COLUMN weights;
DROP TABLE cost_weights, cost_detail, cost_hour_cause, gpu_holding, pod_trouble, cost_touched;
ALTER TABLE pod DROP COLUMN touched_from, DROP COLUMN gpus;
ALTER TABLE node DROP COLUMN touched_from, DROP COLUMN gpus;
