/** A refresh token, as its text says. */
export interface Leaf {
  sessionId: string;
  generation: number;
  /** The whole of what was signed: two tokens of one generation must agree in it. */
  claims: string;
}

export type CallKind =
  | "register"
  | "login"
  | "logout"
  | "refresh"
  | "account"
  | "profile"
  | "read"
  | "pay"
  | "forgot"
  | "reset"
  | "set up"
  | "enable"
  | "ask"
  | "approve"
  | "approved"
  | "verify"
  | "depart"
  | "return"
  | "exchange";

/** One call, as its client knows it. Times are of one monotonic clock: the client's. */
export interface Call {
  /** W3C trace id, of this call alone: its audit entries and what reached the upstream carry it, even if no answer came. */
  traceId: string;
  kind: CallKind;
  /** Names whose token it was, or whom it is about. */
  userId: string;
  /** Of the access token that was shown. */
  sessionId?: string;
  /** The refresh token that was shown. */
  presented?: Leaf;
  /** What was shown and may be used once: a link's token, codes, a challenge, a login at a provider, an approval without a key. */
  secrets?: readonly string[];
  /** What it writes: a payment's reference, the new first name. */
  value?: string;
  /** Of an approved payment: it may pass again with the same key. */
  idempotencyKey?: string;
  /** Its client knows that it must be refused. */
  isAttack?: boolean;
  startMs: number;
  endMs: number;
  /** Undefined: the client has no whole answer. */
  answer?: { status: number; code?: string; requestId: string };
  /** The refresh token of the answer. */
  given?: Leaf;
}

/** What an upstream was sent. */
export interface Received {
  /** By the clock of the calls. */
  atMs: number;
  traceId: string;
  method: string;
  userId: string;
  sessionId: string;
  role: string;
  reference?: string;
  idempotencyKey?: string;
  approvalId?: string;
  approvalDigest?: string;
}

/** What of an entry of the audit log the rules look at. */
export interface Entry {
  id: string;
  producerId: string;
  producerSequence: number;
  producerName: string;
  kind: string;
  callId: string;
  traceId: string;
  requestId: string;
  outcome: string;
  httpStatus: number;
}

export interface Approval {
  id: string;
  userId: string;
  digest: string;
  transaction: string;
}

/** What there is to judge by: calls as the clients saw them, and at the end the upstream and the databases. */
export interface History {
  calls: readonly Call[];
  received: readonly Received[];
  entries: readonly Entry[];
  /** Ids of all events that services have written to their outboxes. */
  owedEvents: readonly string[];
  /** How many entries have a number, and the last. */
  numbered: { count: number; last: number };
  /** Those that were given. */
  approvals: readonly Approval[];
  /** By user: recovery codes that were used up. */
  usedCodes: ReadonlyMap<string, number>;
  /** Keyed by user, at the end. */
  firstNames: ReadonlyMap<string, string>;
  /** By session that is over: why, as the database says. For whoever reads what broke a rule. */
  reasons: ReadonlyMap<string, string>;
}
