-- +goose Up
-- Since when the price held that an hour was costed at; of a mean over an hour's Spot prices, the last of them. NULL: costed before this
-- was kept, or nobody knows a price.
ALTER TABLE node_price ADD COLUMN as_of timestamptz;

-- +goose Down
ALTER TABLE node_price DROP COLUMN as_of;
