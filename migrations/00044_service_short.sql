-- +goose Up
-- Since when the newest plans of a service have said that it lacks replicas (our clock); NULL: they do not.
ALTER TABLE service ADD COLUMN short_since timestamptz;

-- +goose Down
ALTER TABLE service DROP COLUMN short_since;
