-- +goose Up
-- Of rows that were costed before these columns the views are not known.
ALTER TABLE node_price ADD COLUMN contracted_nano bigint;      -- before commitments
ALTER TABLE cost_hour_line
  ADD COLUMN list_nano bigint,        -- the same time at the list price on demand
  ADD COLUMN contracted_nano bigint,  -- at the tenant's own or the Spot price, before commitments
  ADD COLUMN carried_nano bigint;     -- idle of the row's machines, when each machine's workloads carry it; negative for what is carried
ALTER TABLE cost_day
  ADD COLUMN list_nano bigint,
  ADD COLUMN contracted_nano bigint,
  ADD COLUMN carried_nano bigint;

-- +goose Down
ALTER TABLE cost_day DROP COLUMN list_nano, DROP COLUMN contracted_nano, DROP COLUMN carried_nano;
ALTER TABLE cost_hour_line DROP COLUMN list_nano, DROP COLUMN contracted_nano, DROP COLUMN carried_nano;
ALTER TABLE node_price DROP COLUMN contracted_nano;
