#!/bin/sh
# Creates the databases and roles of the services: for each an owner, which runs the migrations, and the role that
# the service connects as. For a PostgreSQL you manage, run it once as a superuser (PGHOST, PGUSER, …), with a
# folder of files `<database>` and `<database>-owner` that hold the passwords of its two roles, and disable
# log_statement meanwhile.
set -eu
passwords=${PASSWORDS:-/run/secrets/passwords}
export PGUSER="${PGUSER:-postgres}"

for database in identity token audit event; do
  service_password=$(cat "$passwords/$database") || exit 1
  owner_password=$(cat "$passwords/$database-owner") || exit 1
  export service_password owner_password
  # In the environment, because every process may read the command line.
  psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=postgres --set="database=$database" <<'SQL'
\getenv service_password service_password
\getenv owner_password owner_password
select format('create role %I login noinherit password %L', 'gatehouse_' || :'database' || '_owner', :'owner_password') \gexec
select format('create role %I login noinherit password %L', 'gatehouse_' || :'database', :'service_password') \gexec
select format('create database %I owner %I template template0 encoding %L',
              :'database', 'gatehouse_' || :'database' || '_owner', 'UTF8') \gexec
select format('revoke all on database %I from public', :'database') \gexec
select format('grant connect on database %I to %I', :'database', 'gatehouse_' || :'database') \gexec
SQL
done
