-- Level of assurance of the session. Null in sessions of the version before: then derived from amr.
alter table sessions add column acr smallint check (acr in (1, 2, 3));
