import {
  type CompletedLogin as CompletedLoginMessage,
  IdentityServiceClient,
} from "../../proto/gen/gatehouse/identity/v1/identity_service.ts";
import type { User as UserMessage } from "../../proto/gen/gatehouse/identity/v1/user.ts";
import { Role as RoleMessage } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import type { Role } from "../../token-client/principal.ts";

/** A user as clients see one. */
export interface User {
  id: string;
  email: string;
  firstName: string;
  lastName: string;
  role: Role;
  emailVerified: boolean;
  mfaEnabled: boolean;
  createdAt: Date;
}

/** The tokens of a session. */
export interface TokenPair {
  accessToken: string;
  refreshToken: string;
  expiresInS: number;
  sessionId: string;
  userId: string;
}

export interface Registration {
  email: string;
  password: string;
  firstName: string;
  lastName: string;
  clientIp: string;
}

export interface LoginAttempt {
  email: string;
  password: string;
  clientIp: string;
  userAgent: string;
  /** As an earlier login gave it; may be empty. */
  deviceToken: string;
}

/** A session that has begun. */
export interface CompletedLogin {
  tokens: TokenPair;
  user: User;
  /** For the next login on this device. */
  deviceToken?: string;
}

/** A login whose password was right and which waits for a code of the second factor. */
export interface PendingLogin {
  tempToken: string;
  methods: readonly string[];
  userId: string;
}

/** A login whose credentials were right and which waits for a new password. */
export interface PendingPasswordChange {
  tempToken: string;
  userId: string;
}

/** What is missing to a session. */
export type UnfinishedLogin = { pending: PendingLogin } | { passwordChange: PendingPasswordChange };

/** An account as its owner sees it. */
export interface OwnAccount extends User {
  /** Only with a second factor. */
  recoveryCodesLeft?: number;
}

/** The gateway's view of identity-service. Every call throws what the service says, as a DomainError. */
export interface IdentityClient {
  register(registration: Registration, context: CallContext): Promise<User>;
  login(attempt: LoginAttempt, context: CallContext): Promise<CompletedLogin | UnfinishedLogin>;
  /** Undefined if there is no such user. */
  getUser(userId: string, context: CallContext): Promise<OwnAccount | undefined>;
  close(): void;
}

/** @param address `host:port` of identity-service. */
export function createIdentityClient(address: string, certificate: ProcessCertificate): IdentityClient {
  const client = createRpcClient(IdentityServiceClient, {
    address,
    service: "identity-service",
    certificate,
    idempotentMethods: ["gatehouse.identity.v1.IdentityService/GetUser"],
  });
  return {
    async register(registration, context) {
      const { user } = await callUnary(client, client.register, registration, context);
      return toUser(user);
    },
    async login(attempt, context) {
      const { result } = await callUnary(client, client.login, attempt, context);
      if (result?.$case === "mfaChallenge") return { pending: result.value };
      if (result?.$case === "passwordChange") return { passwordChange: result.value };
      // A result that this version does not know means: not logged in.
      return toCompletedLogin(result?.value);
    },
    async getUser(userId, context) {
      try {
        const { user, recoveryCodesLeft } = await callUnary(client, client.getUser, { userId }, context);
        return { ...toUser(user), ...(recoveryCodesLeft !== undefined && { recoveryCodesLeft }) };
      } catch (error) {
        if (error instanceof DomainError && error.code === "not_found") return undefined;
        throw error;
      }
    },
    close: () => client.close(),
  };
}

const ROLES = new Map<number, Role>([
  [RoleMessage.USER, "USER"],
  [RoleMessage.ADMIN, "ADMIN"],
  [RoleMessage.AUDITOR, "AUDITOR"],
]);

export function toCompletedLogin(message: CompletedLoginMessage | undefined): CompletedLogin {
  if (message?.tokens === undefined) throw unexpected("login result");
  const { tokens, deviceToken } = message;
  return { tokens, user: toUser(message.user), deviceToken };
}

export function toUser(message: UserMessage | undefined): User {
  const role = ROLES.get(message?.role ?? RoleMessage.UNSPECIFIED);
  if (message?.createdAt === undefined || role === undefined) throw unexpected("user");
  const { id, email, firstName, lastName, emailVerified, mfaEnabled, createdAt } = message;
  return { id, email, firstName, lastName, role, emailVerified, mfaEnabled, createdAt };
}

function unexpected(what: string): Error {
  return new Error(`identity-service sent a ${what} that this gateway cannot read`);
}
