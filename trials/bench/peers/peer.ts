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
