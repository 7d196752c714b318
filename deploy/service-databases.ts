/** The services that have a database. */
export type ServiceName = "identity-service" | "token-service" | "audit-service";

/** A service's database: one for each, and two roles. */
export interface ServiceDatabase {
  service: ServiceName;
  database: string;
  /** Owns the database and its schema; runs the migrations. */
  ownerRole: string;
  /** What the service connects as: no DDL, only its own database. */
  serviceRole: string;
  /** What the service may do with the tables its migrations make. A migration may grant more, or take away. */
  tablePrivileges: string;
}

/** The log is append-only: audit-service's role can neither change nor delete an entry. */
export const SERVICE_DATABASES: readonly ServiceDatabase[] = [
  serviceDatabase("identity-service", "identity", "select, insert, update, delete"),
  serviceDatabase("token-service", "token", "select, insert, update, delete"),
  serviceDatabase("audit-service", "audit", "select, insert"),
];

/** The database of one service. */
export function databaseOf(service: ServiceName): ServiceDatabase {
  const found = SERVICE_DATABASES.find((candidate) => candidate.service === service);
  if (!found) throw new Error(`${service} has no database`);
  return found;
}

function serviceDatabase(service: ServiceName, database: string, tablePrivileges: string): ServiceDatabase {
  const serviceRole = `gatehouse_${database}`;
  return { service, database, ownerRole: `${serviceRole}_owner`, serviceRole, tablePrivileges };
}
