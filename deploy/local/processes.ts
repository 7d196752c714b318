import { databaseOf, type ServiceName } from "../service-databases.ts";
import { certificateFiles, type Identity } from "./certificates.ts";
import type { Home } from "./home.ts";
import { databaseUrl, servicePasswordFile } from "./postgres/ensure-database.ts";
import { externalServer } from "./postgres/external-postgres.ts";
import { redisEnvironment } from "./redis.ts";
import { type FirstAdministrator, secretFile } from "./secrets.ts";
import type { ConfiguredService } from "./service-settings.ts";
import type { Settings } from "./settings.ts";

export interface ProcessSpec {
  name: string;
  /** Relative to the repository. */
  entry: string;
  environment: Record<string, string>;
  nodeOptions: readonly string[];
  readyUrl: string;
  /** Shown to the user. */
  address: string;
}

export const local = (port: number) => `127.0.0.1:${port}`;

/** What people open. Browsers take no IP address for passkeys. They try `::1` first, where nothing listens (`ports.ts`). */
export const openedAt = (port: number) => `http://localhost:${port}`;

export const demoIssuer = (settings: Settings) => `http://${local(settings.DEMO_PROVIDER_PORT)}`;

export const needsDatabase = ({ environment }: ProcessSpec) => "DATABASE_URL" in environment;

/** PostgreSQL is started before them. The groups are stopped in this order: callers first. */
export function processPlan(
  settings: Settings,
  home: Home,
  administrator: Pick<FirstAdministrator, "email" | "passwordFile">,
): ProcessSpec[][] {
  const gatewayUrl = openedAt(settings.GATEWAY_PORT);
  const IDENTITY_SERVICE_ADDRESS = local(settings.IDENTITY_PORT);
  const TOKEN_SERVICE_ADDRESS = local(settings.TOKEN_PORT);
  const AUDIT_SERVICE_ADDRESS = local(settings.AUDIT_PORT);

  const gateway = service(settings, home, "gateway", {
    OPERATIONS_ADDRESS: local(settings.GATEWAY_OPERATIONS_PORT),
    LISTEN_ADDRESS: local(settings.GATEWAY_PORT),
    ...redisEnvironment(settings, home),
    IDENTITY_SERVICE_ADDRESS,
    TOKEN_SERVICE_ADDRESS,
    AUDIT_SERVICE_ADDRESS,
    EVENT_SERVICE_ADDRESS: local(settings.EVENT_PORT),
    ROUTES_FILE: home.routesFile,
    ACCESS_FILE: home.accessFile,
    AUDIT_SPOOL_DIRECTORY: home.spool,
    ALLOWED_ORIGINS: settings.ALLOWED_ORIGINS ?? "",
    PORTAL_RETURN_TO: settings.PORTAL_RETURN_TO ?? "",
    CALL_BUDGET_MS: settings.CALL_BUDGET_MS ?? "",
    ...brandEnvironment(settings),
    WEB: settings.WEB,
    WEB_LINKS: `Mailbox=${openedAt(settings.MAILBOX_PORT)}`,
    PUBLIC_ORIGIN: gatewayUrl,
    ALLOWED_HOSTS: `localhost:${settings.GATEWAY_PORT},${local(settings.GATEWAY_PORT)}`,
  });
  const payments = service(settings, home, "payments-service", {
    OPERATIONS_ADDRESS: local(settings.PAYMENTS_OPERATIONS_PORT),
    LISTEN_ADDRESS: local(settings.PAYMENTS_PORT),
    TOKEN_SERVICE_ADDRESS,
    TOKEN_AUDIENCE: "payments",
  });
  const identity = service(settings, home, "identity-service", {
    ...identityEnvironment(settings, home),
    BOOTSTRAP_ADMIN_EMAIL: administrator.email,
    BOOTSTRAP_ADMIN_PASSWORD_FILE: administrator.passwordFile,
  });
  // The user may have set it, or another origin, with which it is refused.
  identity.environment.TEST_LOGINS ??= String(identity.environment.PUBLIC_ORIGIN === gatewayUrl);
  const token = service(settings, home, "token-service", {
    OPERATIONS_ADDRESS: local(settings.TOKEN_OPERATIONS_PORT),
    ...database(settings, home, "token-service"),
    ...redisEnvironment(settings, home),
    LISTEN_ADDRESS: TOKEN_SERVICE_ADDRESS,
    HEALTH_ADDRESS: local(settings.TOKEN_HEALTH_PORT),
    GRPC_REFLECTION: "true",
    AUDIT_SERVICE_ADDRESS,
    IDENTITY_SERVICE_ADDRESS,
    TOKEN_ISSUER: gatewayUrl,
    KEY_ENCRYPTION_KEY_FILE: secretFile(home, "key-encryption-key"),
  });
  // Beside those that the user has set.
  const { VERIFIERS, ENVOYS } = token.environment;
  token.environment.VERIFIERS = [payments.name, VERIFIERS].filter(Boolean).join(",");
  token.environment.ENVOYS = ["envoy", ENVOYS].filter(Boolean).join(",");
  const audit = service(settings, home, "audit-service", {
    OPERATIONS_ADDRESS: local(settings.AUDIT_OPERATIONS_PORT),
    ...database(settings, home, "audit-service"),
    LISTEN_ADDRESS: AUDIT_SERVICE_ADDRESS,
    HEALTH_ADDRESS: local(settings.AUDIT_HEALTH_PORT),
    GRPC_REFLECTION: "true",
    CHECKPOINT_KEY_FILE: secretFile(home, "checkpoint-key"),
    CHECKPOINT_ORIGIN: "gatehouse.local/audit",
    CHECKPOINT_FILE: home.checkpointFile,
  });
  const event = service(settings, home, "event-service", eventEnvironment(settings, home));
  return [[gateway], [identity, payments, event], [token, audit, ...demos(settings, home)]];
}

const brandEnvironment = ({ BRAND_NAME = "", BRAND_COLOR = "", SUPPORT_URL = "" }: Settings) => ({
  BRAND_NAME,
  BRAND_COLOR,
  SUPPORT_URL,
});

function identityEnvironment(settings: Settings, home: Home) {
  const gatewayUrl = openedAt(settings.GATEWAY_PORT);
  return {
    OPERATIONS_ADDRESS: local(settings.IDENTITY_OPERATIONS_PORT),
    ...database(settings, home, "identity-service"),
    ...redisEnvironment(settings, home),
    LISTEN_ADDRESS: local(settings.IDENTITY_PORT),
    HEALTH_ADDRESS: local(settings.IDENTITY_HEALTH_PORT),
    GRPC_REFLECTION: "true",
    TOKEN_SERVICE_ADDRESS: local(settings.TOKEN_PORT),
    AUDIT_SERVICE_ADDRESS: local(settings.AUDIT_PORT),
    ACCESS_FILE: home.accessFile,
    SMTP_URL: `smtp://${local(settings.SMTP_PORT)}`,
    MAIL_FROM: `${settings.BRAND_NAME ?? "Gatehouse"} <no-reply@gatehouse.example>`,
    PUBLIC_ORIGIN: gatewayUrl,
    LINK_KEY_FILE: secretFile(home, "link-key"),
    MFA_ENCRYPTION_KEY_FILE: secretFile(home, "mfa-encryption-key"),
    DEVICE_KEY_FILE: secretFile(home, "device-key"),
    OAUTH_PROVIDERS_FILE: home.providersFile,
    BREACH_LIST_FILE: settings.BREACH_LIST_FILE ?? "",
    ...brandEnvironment(settings),
    MFA_REQUIRED_ROLES: settings.MFA_REQUIRED_ROLES ?? "",
    TRUSTED_DEVICE_DAYS: settings.TRUSTED_DEVICE_DAYS ?? "",
    // The first is the default.
    OAUTH_RETURN_TO: `${demoIssuer(settings)}/signed-in,${gatewayUrl}/account/returned`,
  };
}

const eventEnvironment = (settings: Settings, home: Home) => ({
  OPERATIONS_ADDRESS: local(settings.EVENT_OPERATIONS_PORT),
  ...database(settings, home, "event-service"),
  LISTEN_ADDRESS: local(settings.EVENT_PORT),
  HEALTH_ADDRESS: local(settings.EVENT_HEALTH_PORT),
  GRPC_REFLECTION: "true",
  AUDIT_SERVICE_ADDRESS: local(settings.AUDIT_PORT),
  IDENTITY_SERVICE_ADDRESS: local(settings.IDENTITY_PORT),
  TOKEN_SERVICE_ADDRESS: local(settings.TOKEN_PORT),
  PUBLIC_ORIGIN: openedAt(settings.GATEWAY_PORT),
  WEBHOOK_ENCRYPTION_KEY_FILE: secretFile(home, "webhook-encryption-key"),
  WEBHOOK_NETWORKS: "public,private,loopback",
});

function demos(settings: Settings, home: Home): ProcessSpec[] {
  const mailbox = demo("mailbox", settings.MAILBOX_PORT, "/healthz", {
    SMTP_PORT: String(settings.SMTP_PORT),
    MAILBOX_PORT: String(settings.MAILBOX_PORT),
    MAIL_DIRECTORY: home.mail,
  });
  const provider = demo("demo-provider", settings.DEMO_PROVIDER_PORT, "/signed-in", {
    DEMO_PROVIDER_PORT: String(settings.DEMO_PROVIDER_PORT),
    CLIENT_SECRET_FILE: secretFile(home, "demo-client-secret"),
    GATEWAY_URL: openedAt(settings.GATEWAY_PORT),
  });
  return [mailbox, provider];
}

function service(
  settings: Settings,
  home: Home,
  name: Identity & ConfiguredService,
  environment: Record<string, string> & { LISTEN_ADDRESS: string; OPERATIONS_ADDRESS: string },
): ProcessSpec {
  const tls = certificateFiles(home.tls, name);
  return {
    name,
    entry: name === "payments-service" ? "clients/examples/payments-service/main.ts" : `${name}/main.ts`,
    address: environment.LISTEN_ADDRESS,
    readyUrl: `http://${environment.OPERATIONS_ADDRESS}/readyz`,
    nodeOptions: [],
    environment: {
      ...environment,
      LOG_LEVEL: settings.LOG_LEVEL,
      OTEL_EXPORTER_OTLP_ENDPOINT: settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? "",
      TLS_CERT_FILE: tls.certificate,
      TLS_KEY_FILE: tls.key,
      TLS_CA_FILE: tls.authority,
      ...settings.services[name],
    },
  };
}

function database(settings: Settings, home: Home, name: ServiceName): Record<string, string> {
  const wanted = databaseOf(name);
  const server = externalServer(settings) ?? { host: "127.0.0.1", port: settings.POSTGRES_PORT };
  return {
    DATABASE_URL: databaseUrl(server, wanted.serviceRole, wanted.database),
    DATABASE_PASSWORD_FILE: servicePasswordFile(home.secrets, wanted),
    DATABASE_CA_FILE: settings.GATEHOUSE_POSTGRES_CA_FILE ?? "",
    DATABASE_PLAINTEXT: settings.GATEHOUSE_PLAINTEXT,
  };
}

function demo(
  name: string,
  port: number,
  readyPath: string,
  environment: Record<string, string>,
): ProcessSpec {
  return {
    name,
    entry: `deploy/local/demo/${name}.ts`,
    address: local(port),
    readyUrl: `http://${local(port)}${readyPath}`,
    nodeOptions: ["--optimize-for-size", "--max-semi-space-size=1"], // The mailbox needs 113 MB instead of 152 MB.
    environment,
  };
}
