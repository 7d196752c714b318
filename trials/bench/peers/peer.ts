import { join } from "node:path";
import { findProgram } from "#tests/support/system/find-program.ts";

/** What Gatehouse is compared with. Each is optional: `setup.sh` installs it, and what is missing is reported. */

export interface RunningPeer {
  /** Where it answers, on loopback. */
  url: string;
  /** Processes whose CPU and memory count, looked up anew at each call. */
  processes(): number[];
  stop(): Promise<void>;
}

export interface GatewayPeer {
  name: string;
  /** What it does for each call, for the table. */
  does: string;
  /** Whether it refuses calls without a valid token of the role; `checkGateway` holds it to that. */
  checksTokens: boolean;
  /** What is missing on this machine, as a sentence for the table; undefined if it can start. */
  missing(): string | undefined;
  start(context: GatewayContext): Promise<RunningPeer>;
}

export interface GatewayContext {
  /** Empty, private; removed afterwards. */
  folder: string;
  upstreamPort: number;
  /** JWKS with the ES256 public key of the tokens that peers get. */
  jwksFile: string;
  /** The same key as PEM. */
  pemFile: string;
  issuer: string;
  audience: string;
  /** The claim `roles` of the tokens, an array, contains it. */
  role: string;
}

export interface IdentityPeer {
  name: string;
  does: string;
  missing(): string | undefined;
  /** `users` accounts exist afterwards, with argon2id m=19456 t=2 p=1 where the peer can. */
  start(context: { folder: string; users: number }): Promise<RunningPeer & IdentityCalls>;
}

/**
 * Calls that the load sends: each resolves when the answer is right and throws otherwise. Absent if the peer has no such thing.
 * Those of one user must not overlap, because a refresh may end the token before it.
 */
export interface IdentityCalls {
  login?(user: number): Promise<void>;
  refresh?(user: number): Promise<void>;
  check?(user: number): Promise<void>;
  me?(user: number): Promise<void>;
}

export const INSTALLED = join(import.meta.dirname, ".installed");

/** A program that `setup.sh` or the machine has. */
export const findPeer = (name: string) => findProgram([name], [join(INSTALLED, "bin")]);
