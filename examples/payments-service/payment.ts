import { z } from "zod";

/** Far above any payment, far below where numbers lose their last digit. */
const MAX_AMOUNT_MINOR = 1_000_000_000_000;
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf("currency"));
/** Something to read, and nothing that does not print. */
const PRINTABLE = /^(?=.*[^\p{Z}])\P{C}+$/u;

const text = (maxCharacters: number) =>
  z.string().min(1).max(maxCharacters).regex(PRINTABLE, "must be printable text");

/** What a client orders. */
export const PaymentOrder = z.strictObject({
  /** In minor units: cents for EUR, yen for JPY. */
  amount: z.int().min(1).max(MAX_AMOUNT_MINOR),
  /** ISO 4217, upper case. */
  currency: z.string().refine((code) => CURRENCIES.has(code), "must be an ISO 4217 code"),
  payee: text(140),
  reference: text(140),
});
export type PaymentOrder = z.infer<typeof PaymentOrder>;

export interface Payment extends PaymentOrder {
  id: string;
  /** Who ordered it: from the token that this service verified. */
  userId: string;
  createdAt: Date;
}
