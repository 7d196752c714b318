export const USAGE = `Usage: <image> PROGRAM [ARGUMENT…]

  gateway, identity-service, token-service, audit-service, event-service   one of the services
  migrate identity|token|audit|event       bring a database to this version's schema, as its owner
  await-schema identity|token|audit|event  wait until that has happened, as the service's own role
  drain-spool                              send the audit entries that a gateway which is gone has left
  gatehouse …                              the operator's command line; --help lists its commands
  payments-service                         the example API, for trying

Configuration is read from environment variables: docs/config.md.`;
