-- +goose Up
-- What a tenant has bought for a term. Changed by an import that says otherwise about the same ref; history is not touched by that, since
-- claims are frozen with the hours they belong to.
CREATE TABLE commitment (
  tenant_id     uuid NOT NULL,
  id            uuid NOT NULL,
  ref           text NOT NULL,           -- the provider's id, or the tenant's own
  kind          text NOT NULL CONSTRAINT commitment_kind CHECK (kind IN ('aws_capacity_block', 'aws_capacity_reservation', 'aws_zonal_ri', 'aws_regional_ri',
    'aws_ec2_instance_sp', 'aws_compute_sp', 'azure_reservation', 'azure_savings_plan', 'gcp_resource_cud', 'gcp_flexible_cud')),
  region        text NOT NULL,
  zone          text NOT NULL,
  instance_type text NOT NULL,
  family        text NOT NULL,
  resource      text NOT NULL,
  gpu_model     text NOT NULL,
  quantity      bigint NOT NULL CONSTRAINT commitment_quantity CHECK (quantity >= 0), -- thousandths of machines, vCPUs or GPUs; MiB of memory
  upfront_nano   bigint NOT NULL CONSTRAINT commitment_upfront CHECK (upfront_nano >= 0),
  recurring_nano bigint NOT NULL CONSTRAINT commitment_recurring CHECK (recurring_nano >= 0), -- per hour
  spend_nano     bigint NOT NULL CONSTRAINT commitment_spend CHECK (spend_nano >= 0),         -- per hour, of a spend plan
  discount_ppm  bigint NOT NULL,
  rates         jsonb NOT NULL,
  ratios        jsonb NOT NULL,
  flexible      boolean,                 -- NULL: as the family says
  starts_at     timestamptz NOT NULL,
  ends_at       timestamptz,             -- NULL: until cancelled
  owner         text NOT NULL,           -- team that bears what is unused
  source        text NOT NULL,           -- api, csv, json
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  changed_at    timestamptz NOT NULL,
  deleted_at    timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT commitment_term CHECK (ends_at > starts_at)
);
CREATE UNIQUE INDEX commitment_ref_key ON commitment (tenant_id, ref) WHERE deleted_at IS NULL;
SELECT app_isolate('commitment', 'SELECT, INSERT, UPDATE');

-- What a node's closed hour took of a commitment. Append-only: whoever closes another cluster's hour later leaves it out, so that no
-- reserved hour is used twice.
CREATE TABLE commitment_claim (
  tenant_id     uuid NOT NULL,
  hour          timestamptz NOT NULL,
  cluster_id    uuid NOT NULL,
  node_uid      text NOT NULL,
  commitment_id uuid NOT NULL,
  resource      text NOT NULL,
  units         bigint NOT NULL,         -- unit-milliseconds of the machine
  taken         bigint NOT NULL,         -- unit-milliseconds of the commitment; 0 of a spend plan
  amount_nano   bigint NOT NULL CONSTRAINT commitment_claim_amount CHECK (amount_nano >= 0),
  PRIMARY KEY (tenant_id, hour, cluster_id, node_uid, commitment_id, resource)
);
SELECT app_isolate('commitment_claim', 'SELECT, INSERT');

-- What is bought and unused is a cost of its own. It belongs to no cluster: its rows carry the cluster id that is all zeros.
ALTER TABLE cost_transfer DROP CONSTRAINT cost_transfer_kind;
ALTER TABLE cost_transfer ADD CONSTRAINT cost_transfer_kind CHECK (kind IN ('workload', 'idle', 'overhead', 'residual', 'commitment_unused'));
ALTER TABLE cost_transfer DROP CONSTRAINT cost_transfer_resource;
ALTER TABLE cost_transfer ADD CONSTRAINT cost_transfer_resource CHECK (resource IN ('cpu', 'memory', 'gpu', 'commitment'));

-- +goose Down
DELETE FROM cost_transfer WHERE kind = 'commitment_unused';
ALTER TABLE cost_transfer DROP CONSTRAINT cost_transfer_kind;
ALTER TABLE cost_transfer ADD CONSTRAINT cost_transfer_kind CHECK (kind IN ('workload', 'idle', 'overhead', 'residual'));
ALTER TABLE cost_transfer DROP CONSTRAINT cost_transfer_resource;
ALTER TABLE cost_transfer ADD CONSTRAINT cost_transfer_resource CHECK (resource IN ('cpu', 'memory', 'gpu'));
DROP TABLE commitment_claim, commitment;
