export type ServiceName = "identity-service" | "token-service" | "audit-service" | "event-service";

/** Each service has one database and two roles. */
export interface ServiceDatabase {
  service: ServiceName;
  database: string;
  /** Owns the schema and runs the migrations. */
  ownerRole: string;
  /** The service's login role, without DDL. */
  serviceRole: string;
  /** Default privileges. A migration may change them. */
  tablePrivileges: string;
}

/** The log is append-only, so audit-service's role cannot change or delete entries. */
export const SERVICE_DATABASES: readonly ServiceDatabase[] = [
  serviceDatabase("identity-service", "identity", "select, insert, update, delete"),
  serviceDatabase("token-service", "token", "select, insert, update, delete"),
  serviceDatabase("audit-service", "audit", "select, insert"),
  serviceDatabase("event-service", "event", "select, insert, update, delete"),
];

export function databaseOf(service: ServiceName): ServiceDatabase {
  const found = SERVICE_DATABASES.find((candidate) => candidate.service === service);
  if (!found) throw new Error(`${service} has no database`);
  return found;
}

function serviceDatabase(service: ServiceName, database: string, tablePrivileges: string): ServiceDatabase {
  const serviceRole = `gatehouse_${database}`;
  return { service, database, ownerRole: `${serviceRole}_owner`, serviceRole, tablePrivileges };
}
