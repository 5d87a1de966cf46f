-- +goose Up
-- What an SLO rule has learned of a workload: optimizer/quantile's own bytes, written every five minutes in the transaction of a plan. It is
-- not what decisions are computed again from (that is plan.input, which has the forecast in numbers): losing it costs an hour of caution.
CREATE TABLE workload_learned (
  tenant_id   uuid NOT NULL,
  workload_id uuid NOT NULL,
  began       text NOT NULL,           -- why learning began when it did
  began_at    timestamptz NOT NULL,    -- data time
  slot        bigint NOT NULL,         -- the next 15 s of unix time to learn
  state       bytea NOT NULL CONSTRAINT workload_learned_size CHECK (octet_length(state) <= 524288),
  updated_at  timestamptz NOT NULL,    -- our clock
  PRIMARY KEY (tenant_id, workload_id),
  FOREIGN KEY (tenant_id, workload_id) REFERENCES workload (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE workload_learned ALTER COLUMN state SET STORAGE EXTERNAL; -- it does not compress
SELECT app_isolate('workload_learned', 'SELECT, INSERT, UPDATE');

-- +goose Down
DROP TABLE workload_learned;
