-- +goose Up
-- Until when the hours of a machine or pod are to be looked at again: an end that is told late moves from where costing took it to be. NULL: until its end.
ALTER TABLE node ADD COLUMN touched_to timestamptz;
ALTER TABLE pod ADD COLUMN touched_to timestamptz;

-- +goose Down
ALTER TABLE node DROP COLUMN touched_to;
ALTER TABLE pod DROP COLUMN touched_to;
