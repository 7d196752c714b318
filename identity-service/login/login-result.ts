import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import type { SecondFactor } from "../mfa/second-factors.ts";
import type { SessionTokens } from "../sessions/token-service-client.ts";
import type { Account } from "../users/account.ts";

/** Named as in the proto's LoginResult. */
export type LoginResult = CompletedLogin | MfaChallenge | PasswordChangeChallenge | MfaEnrollmentChallenge;

interface CompletedLogin {
  kind: "completed";
  tokens: SessionTokens;
  user: Account;
  deviceToken: string;
}

export interface MfaChallenge {
  kind: "mfaChallenge";
  /** Never logged. */
  tempToken: string;
  methods: readonly SecondFactor[];
  /** With the method `passkey`. */
  passkey?: PublicKeyCredentialRequestOptionsJSON | undefined;
  userId: string;
  /** For which the user may trust this device. Undefined: not at all. */
  trustDeviceDays?: number | undefined;
}

export interface PasswordChangeChallenge {
  kind: "passwordChange";
  /** Never logged. */
  tempToken: string;
  userId: string;
}

export interface MfaEnrollmentChallenge {
  kind: "mfaEnrollment";
  /** Never logged. */
  tempToken: string;
  methods: readonly string[];
  userId: string;
}
