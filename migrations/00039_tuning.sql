-- +goose Up
-- What nightly tuning found: the workload's own history under a small grid of settings of its slo rule. A proposal is never applied by itself, unless the policy
-- says so. The newest thirty of a workload are kept.
CREATE TABLE tuning (
  tenant_id      uuid NOT NULL,
  workload_id    uuid NOT NULL,
  id             uuid NOT NULL,            -- v7
  at             timestamptz NOT NULL,     -- data time of the end of the history
  made_at        timestamptz NOT NULL,     -- our clock
  policy_version integer NOT NULL,         -- in force then
  state          text NOT NULL CONSTRAINT tuning_state CHECK (state IN ('proposed', 'kept', 'refused', 'dismissed', 'failed')),
  reason         text NOT NULL,            -- a code
  document       text NOT NULL DEFAULT '', -- the proposed policy; empty: none
  replay_id      uuid,                     -- of the proposed policy, which lets it be enforced
  rollout_id     uuid,                     -- that began by itself, where the policy says so
  took_ms        integer NOT NULL,
  result         jsonb NOT NULL CONSTRAINT tuning_result_size CHECK (octet_length(result::text) <= 65536),
  dismissed_by   text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant_id, workload_id, id),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
SELECT app_isolate('tuning', 'SELECT, INSERT, UPDATE, DELETE');

-- +goose Down
DROP TABLE tuning;
