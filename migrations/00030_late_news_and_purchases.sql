-- +goose Up
-- Until when the hours of a machine or pod are to be looked at again: an end that is told late moves from where costing took it to be. NULL: until its end.
ALTER TABLE node ADD COLUMN touched_to timestamptz;
ALTER TABLE pod ADD COLUMN touched_to timestamptz;

-- What was paid for a commitment in an hour, kept when the first cluster closes the hour and never changed: a commitment that is changed or deleted
-- later was paid for as it was. Usage and what is unused of it in the hour add up to bought_nano.
CREATE TABLE commitment_purchase (
  tenant_id      uuid NOT NULL,
  hour           timestamptz NOT NULL,
  commitment_id  uuid NOT NULL,
  upfront_nano   bigint NOT NULL,        -- paid once, in the hour in which the term begins
  recurring_nano bigint NOT NULL,        -- paid for this hour
  bought_nano    bigint NOT NULL,        -- amortised: recurring, and the hour's part of what was paid up front
  millis         bigint NOT NULL CONSTRAINT commitment_purchase_millis CHECK (millis > 0), -- of the term within the hour
  quantity       bigint NOT NULL,        -- as in commitment
  team           text NOT NULL,          -- its owner
  as_of          timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, hour, commitment_id),
  CONSTRAINT commitment_purchase_amounts CHECK (upfront_nano >= 0 AND recurring_nano >= 0 AND bought_nano >= 0)
);
SELECT app_isolate('commitment_purchase', 'SELECT, INSERT');

-- +goose Down
DROP TABLE commitment_purchase;
ALTER TABLE node DROP COLUMN touched_to;
ALTER TABLE pod DROP COLUMN touched_to;
