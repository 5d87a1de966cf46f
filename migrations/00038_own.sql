-- +goose Up
-- NodePools that others made and that the cluster's plans shall write: the agent keeps what they said before.
ALTER TABLE karpenter_policy ADD COLUMN own text[] NOT NULL DEFAULT '{}' CONSTRAINT karpenter_policy_own CHECK (cardinality(own) <= 50);

-- What of the cloud itself changes a group, as it was looked at last. own: it is stopped, and given back when own or the group is switched off; suspended
-- is what was stopped, written down before the cloud is asked. shrink: machines without pods that were cordoned may be ended by name.
ALTER TABLE cloud_group
  ADD COLUMN own boolean NOT NULL DEFAULT false,
  ADD COLUMN shrink boolean NOT NULL DEFAULT false,
  ADD COLUMN writers jsonb NOT NULL DEFAULT '[]',
  ADD COLUMN writers_at timestamptz,
  ADD COLUMN writers_problem text NOT NULL DEFAULT '',
  ADD COLUMN suspended text[] NOT NULL DEFAULT '{}',
  ADD COLUMN stopped_at timestamptz[] NOT NULL DEFAULT '{}';

-- Machines that go, by the cloud's names and the nodes that they are; empty: an action that sets a size.
ALTER TABLE cloud_group_action
  ADD COLUMN machines text[] NOT NULL DEFAULT '{}',
  ADD COLUMN nodes text[] NOT NULL DEFAULT '{}',
  ADD CONSTRAINT cloud_group_action_machines CHECK (cardinality(machines) = cardinality(nodes) AND cardinality(machines) <= 100);

-- An order may be about machines that groups let go: they are drained before the cloud is asked to end them.
ALTER TABLE karpenter_order DROP CONSTRAINT karpenter_order_kind, ADD CONSTRAINT karpenter_order_kind CHECK (kind IN ('plan', 'hand_back', 'drain'));
CREATE INDEX karpenter_action_drain ON karpenter_action (tenant_id, action_id) WHERE action_id LIKE 'drain/%';

-- +goose Down
DROP INDEX karpenter_action_drain;
DELETE FROM karpenter_order WHERE kind = 'drain';
ALTER TABLE karpenter_order DROP CONSTRAINT karpenter_order_kind, ADD CONSTRAINT karpenter_order_kind CHECK (kind IN ('plan', 'hand_back'));
ALTER TABLE cloud_group_action DROP CONSTRAINT cloud_group_action_machines, DROP COLUMN nodes, DROP COLUMN machines;
ALTER TABLE cloud_group DROP COLUMN stopped_at, DROP COLUMN suspended, DROP COLUMN writers_problem, DROP COLUMN writers_at, DROP COLUMN writers, DROP COLUMN shrink, DROP COLUMN own;
ALTER TABLE karpenter_policy DROP COLUMN own;
