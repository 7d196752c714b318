import { join } from "node:path";
import { certificateFiles, type Identity } from "./certificates.ts";
import { hasPrometheus } from "./find-prometheus.ts";
import type { FirstAdministrator } from "./first-administrator.ts";
import type { Home } from "./home.ts";
import { servicePasswordFile } from "./postgres/provision.ts";
import { databaseOf, type ServiceName } from "./service-databases.ts";
import type { Settings } from "./settings.ts";
import type { ProcessSpec } from "./supervisor.ts";

/** What may start at once, and what needs its database first. */
export interface ProcessPlan {
  independent: ProcessSpec[];
  withDatabase: ProcessSpec[];
}

/** Stopped in this order, a group at a time: who calls before who is called. */
export const STOP_GROUPS: readonly (readonly string[])[] = [
  ["monitoring"],
  ["gateway"],
  ["identity-service", "payments-service"],
  ["token-service", "audit-service", "mailbox", "demo-provider"],
];

/** Whether Prometheus runs, too: asked for, and installed. */
function monitors(settings: Settings): boolean {
  return settings.WITH_MONITORING && hasPrometheus(process.env.PATH);
}

const local = (port: number) => `127.0.0.1:${port}`;

/** The processes of a local Gatehouse beside PostgreSQL, each with all it reads from its environment. */
export function processPlan(settings: Settings, home: Home, administrator: FirstAdministrator): ProcessPlan {
  const services = {
    IDENTITY_SERVICE_ADDRESS: local(settings.IDENTITY_PORT),
    TOKEN_SERVICE_ADDRESS: local(settings.TOKEN_PORT),
    AUDIT_SERVICE_ADDRESS: local(settings.AUDIT_PORT),
  };
  const { TOKEN_SERVICE_ADDRESS } = services;

  const gateway = service(settings, home, "gateway", settings.GATEWAY_OPERATIONS_PORT, {
    ...services,
    LISTEN_ADDRESS: local(settings.GATEWAY_PORT),
    ROUTES_FILE: home.routesFile,
    AUDIT_SPOOL_DIRECTORY: home.spool,
    ALLOWED_HOSTS: `${local(settings.GATEWAY_PORT)},localhost:${settings.GATEWAY_PORT}`,
  });
  const payments = service(settings, home, "payments-service", settings.PAYMENTS_OPERATIONS_PORT, {
    LISTEN_ADDRESS: local(settings.PAYMENTS_PORT),
    TOKEN_SERVICE_ADDRESS,
  });
  const identity = service(settings, home, "identity-service", settings.IDENTITY_OPERATIONS_PORT, {
    ...databaseEnvironment(settings, home, "identity-service"),
    LISTEN_ADDRESS: local(settings.IDENTITY_PORT),
    HEALTH_ADDRESS: local(settings.IDENTITY_HEALTH_PORT),
    TOKEN_SERVICE_ADDRESS,
    AUDIT_SERVICE_ADDRESS: services.AUDIT_SERVICE_ADDRESS,
    BOOTSTRAP_ADMIN_EMAIL: administrator.email,
    BOOTSTRAP_ADMIN_PASSWORD_FILE: administrator.passwordFile,
    SMTP_URL: `smtp://${local(settings.SMTP_PORT)}`,
    MAIL_FROM: "Gatehouse <no-reply@gatehouse.example>",
    PUBLIC_ORIGIN: `http://${local(settings.GATEWAY_PORT)}`,
    LINK_KEY_FILE: linkKeyFile(home),
    MFA_ENCRYPTION_KEY_FILE: mfaEncryptionKeyFile(home),
    DEVICE_KEY_FILE: deviceKeyFile(home),
    OAUTH_PROVIDERS_FILE: home.providersFile,
    OAUTH_RETURN_TO: demoPageUrl(settings),
  });
  const token = service(settings, home, "token-service", settings.TOKEN_OPERATIONS_PORT, {
    ...databaseEnvironment(settings, home, "token-service"),
    LISTEN_ADDRESS: local(settings.TOKEN_PORT),
    HEALTH_ADDRESS: local(settings.TOKEN_HEALTH_PORT),
    AUDIT_SERVICE_ADDRESS: services.AUDIT_SERVICE_ADDRESS,
    IDENTITY_SERVICE_ADDRESS: services.IDENTITY_SERVICE_ADDRESS,
    TOKEN_ISSUER: `http://${local(settings.GATEWAY_PORT)}`,
    KEY_ENCRYPTION_KEY_FILE: keyEncryptionKeyFile(home),
  });
  const audit = service(settings, home, "audit-service", settings.AUDIT_OPERATIONS_PORT, {
    ...databaseEnvironment(settings, home, "audit-service"),
    LISTEN_ADDRESS: local(settings.AUDIT_PORT),
    HEALTH_ADDRESS: local(settings.AUDIT_HEALTH_PORT),
    CHECKPOINT_KEY_FILE: checkpointKeyFile(home),
    CHECKPOINT_ORIGIN: "gatehouse.local/audit",
    CHECKPOINT_FILE: home.checkpointFile,
  });
  return {
    independent: [
      mailbox(settings, home),
      demoProvider(settings, home),
      gateway,
      payments,
      ...(monitors(settings) ? [monitoring(settings, home)] : []),
    ],
    withDatabase: [token, identity, audit],
  };
}

/** The key under which token-service encrypts its signing keys: 32 bytes as base64. */
export function keyEncryptionKeyFile(home: Home): string {
  return join(home.secrets, "key-encryption-key");
}

/** The key under which identity-service encrypts TOTP secrets: 32 bytes as base64. */
export function mfaEncryptionKeyFile(home: Home): string {
  return join(home.secrets, "mfa-encryption-key");
}

/** The key with which audit-service signs checkpoints: Ed25519, PEM (PKCS#8). */
export function checkpointKeyFile(home: Home): string {
  return join(home.secrets, "checkpoint-key");
}

/** The key that makes the tokens of mailed links: 32 bytes as base64. */
export function linkKeyFile(home: Home): string {
  return join(home.secrets, "link-key");
}

/** The key with which identity-service knows devices again: 32 bytes as base64. */
export function deviceKeyFile(home: Home): string {
  return join(home.secrets, "device-key");
}

/** What identity-service proves itself with to the demo provider. */
export function demoClientSecretFile(home: Home): string {
  return join(home.secrets, "demo-client-secret");
}

export function demoIssuer(settings: Settings): string {
  return `http://${local(settings.DEMO_PROVIDER_PORT)}`;
}

/** Where a browser lands after a login at the demo provider. */
function demoPageUrl(settings: Settings): string {
  return `${demoIssuer(settings)}/signed-in`;
}

function service(
  settings: Settings,
  home: Home,
  name: Identity,
  operationsPort: number,
  environment: Record<string, string> & { LISTEN_ADDRESS: string },
): ProcessSpec {
  const tls = certificateFiles(home.tls, name);
  return {
    name,
    entry: name === "payments-service" ? "examples/payments-service/main.ts" : `${name}/main.ts`,
    address: environment.LISTEN_ADDRESS,
    readyUrl: `http://${local(operationsPort)}/readyz`,
    nodeOptions: ["--max-semi-space-size=2"], // 10 MB less at rest
    environment: {
      ...environment,
      LOG_LEVEL: settings.LOG_LEVEL,
      OTEL_EXPORTER_OTLP_ENDPOINT: settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? "",
      OPERATIONS_ADDRESS: local(operationsPort),
      TLS_CERT_FILE: tls.certificate,
      TLS_KEY_FILE: tls.key,
      TLS_CA_FILE: tls.authority,
    },
  };
}

function databaseEnvironment(settings: Settings, home: Home, name: ServiceName): Record<string, string> {
  const wanted = databaseOf(name);
  return {
    DATABASE_URL: `postgres://${wanted.serviceRole}@${local(settings.POSTGRES_PORT)}/${wanted.database}`,
    DATABASE_PASSWORD_FILE: servicePasswordFile(home.secrets, wanted),
  };
}

function monitoring(settings: Settings, home: Home): ProcessSpec {
  const { GATEWAY_OPERATIONS_PORT, IDENTITY_OPERATIONS_PORT, TOKEN_OPERATIONS_PORT } = settings;
  const { AUDIT_OPERATIONS_PORT, PROMETHEUS_PORT } = settings;
  const ports = [
    GATEWAY_OPERATIONS_PORT,
    IDENTITY_OPERATIONS_PORT,
    TOKEN_OPERATIONS_PORT,
    AUDIT_OPERATIONS_PORT,
  ];
  return {
    name: "monitoring",
    entry: "deploy/local/monitoring.ts",
    address: local(PROMETHEUS_PORT),
    readyUrl: `http://${local(PROMETHEUS_PORT)}/-/ready`,
    environment: {
      PROMETHEUS_ADDRESS: local(PROMETHEUS_PORT),
      PROMETHEUS_DIRECTORY: home.prometheus,
      TARGETS: ports.map(local).join(","),
    },
  };
}

function mailbox(settings: Settings, home: Home): ProcessSpec {
  return {
    name: "mailbox",
    entry: "deploy/local/demo/mailbox.ts",
    nodeOptions: ["--optimize-for-size", "--max-semi-space-size=1"], // 113 MB at rest instead of 152
    address: local(settings.MAILBOX_PORT),
    readyUrl: `http://${local(settings.MAILBOX_PORT)}/healthz`,
    environment: {
      SMTP_PORT: String(settings.SMTP_PORT),
      MAILBOX_PORT: String(settings.MAILBOX_PORT),
      MAIL_DIRECTORY: home.mail,
    },
  };
}

function demoProvider(settings: Settings, home: Home): ProcessSpec {
  const gatewayUrl = `http://${local(settings.GATEWAY_PORT)}`;
  return {
    name: "demo-provider",
    entry: "deploy/local/demo/demo-provider.ts",
    nodeOptions: ["--optimize-for-size", "--max-semi-space-size=1"],
    address: local(settings.DEMO_PROVIDER_PORT),
    readyUrl: `${demoIssuer(settings)}/.well-known/openid-configuration`,
    environment: {
      DEMO_PROVIDER_PORT: String(settings.DEMO_PROVIDER_PORT),
      CLIENT_SECRET_FILE: demoClientSecretFile(home),
      GATEWAY_URL: gatewayUrl,
    },
  };
}
