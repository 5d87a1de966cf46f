-- +goose Up
-- Since when what an open alert tells of has not been so; NULL: it is so. Kinds that come and go around a limit are resolved only after they
-- have been clear for a while, so that one trouble is told once.
ALTER TABLE alert ADD COLUMN clear_since timestamptz;

-- Pager services take events with a key of their own; the key is a secret and sealed.
ALTER TABLE webhook DROP CONSTRAINT webhook_kind;
ALTER TABLE webhook ADD CONSTRAINT webhook_kind CHECK (kind IN ('webhook', 'slack', 'teams', 'email', 'pagerduty', 'opsgenie'));

-- +goose Down
DELETE FROM webhook WHERE kind IN ('pagerduty', 'opsgenie');
ALTER TABLE webhook DROP CONSTRAINT webhook_kind;
ALTER TABLE webhook ADD CONSTRAINT webhook_kind CHECK (kind IN ('webhook', 'slack', 'teams', 'email'));
ALTER TABLE alert DROP COLUMN clear_since;
