-- +goose Up
-- Isolation. Every table of a tenant has tenant_id first in its primary key, is distributed by it where Citus is there, and
-- shows a role only the rows of the tenant that the transaction named (SET LOCAL app.tenant_id). No tenant named: no rows.

-- +goose StatementBegin
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'plimsoll_service') THEN
    CREATE ROLE plimsoll_service NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- made by a migration of another database at the same moment
END $$;
-- +goose StatementEnd

CREATE FUNCTION app_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT nullif(current_setting('app.tenant_id', true), '')::uuid $$;

-- app_isolate: call once after each tenant table is made, before the next is. privileges is what the service may do.
-- +goose StatementBegin
CREATE FUNCTION app_isolate(t regclass, privileges text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    EXECUTE format('SELECT create_distributed_table(%L, %L)', t::text, 'tenant_id');
  END IF;
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t);
  EXECUTE format('CREATE POLICY tenant_only ON %s USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
  EXECUTE format('GRANT %s ON %s TO plimsoll_service', privileges, t);
END $$;
-- +goose StatementEnd

-- app_reference: a small table without a tenant, copied to every node where Citus is there.
-- +goose StatementBegin
CREATE FUNCTION app_reference(t regclass, privileges text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
    EXECUTE format('SELECT create_reference_table(%L)', t::text);
  END IF;
  EXECUTE format('GRANT %s ON %s TO plimsoll_service', privileges, t);
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION app_reference(regclass, text);
DROP FUNCTION app_isolate(regclass, text);
DROP FUNCTION app_tenant();
