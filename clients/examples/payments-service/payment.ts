import { z } from "zod";

/** Far below the limit of exact integers. */
const MAX_AMOUNT_MINOR = 1_000_000_000_000;
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"));
const PRINTABLE = /^(?=.*[^\p{Z}])\P{C}+$/u;

const MAX_NAME_CHARACTERS = 140;
const text = (maxCharacters: number) =>
  z.string().min(1).max(maxCharacters).regex(PRINTABLE, "must be printable text");

export const PaymentOrder = z.strictObject({
  /** In minor units, such as cents. */
  amount: z.int().min(1).max(MAX_AMOUNT_MINOR),
  currency: z.string().refine((code) => CURRENCIES.has(code), "must be an ISO 4217 code"),
  payee: text(MAX_NAME_CHARACTERS),
  reference: text(140),
});
export type PaymentOrder = z.infer<typeof PaymentOrder>;

export interface Payment extends PaymentOrder {
  id: string;
  /** From the verified token. */
  userId: string;
  createdAt: Date;
}

const MAX_KEY_CHARACTERS = 255;

/** Payments above this amount go to saved payees only, and Gatehouse demands an approval. */
export const MAX_TO_ANYBODY_MINOR = 10_000;

export const Payee = z.strictObject({ name: text(MAX_NAME_CHARACTERS) });

/** A client's `Idempotency-Key`. */
export const IdempotencyKey = text(MAX_KEY_CHARACTERS);
/** The gateway's `X-Approval-Id`. */
export const ApprovalId = z.uuid();
