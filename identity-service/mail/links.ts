import { createHash, createHmac } from "node:crypto";
import type { MailValue } from "./mail.ts";

export const LINK_PURPOSES = [
  "verify_email",
  "reset_password",
  "confirm_email_change",
  "undo_email_change",
  "undo_access_change",
] as const;
export type LinkPurpose = (typeof LINK_PURPOSES)[number];

export const LINK_LIFETIME_MS: Record<LinkPurpose, number> = {
  verify_email: 24 * 3_600_000,
  reset_password: 30 * 60_000,
  confirm_email_change: 24 * 3_600_000,
  undo_email_change: 7 * 24 * 3_600_000,
  undo_access_change: 7 * 24 * 3_600_000,
};

const PAGES: Record<LinkPurpose, string> = {
  verify_email: "/auth/verify-email",
  reset_password: "/auth/reset-password",
  confirm_email_change: "/auth/confirm-email-change",
  undo_email_change: "/auth/undo-email-change",
  undo_access_change: "/auth/undo-access-change",
};

/** 32 bytes in base64url. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/;
const STORED_LINK = /^([a-z_]{1,32}):([0-9a-f-]{36})$/;

/** HMACs of link ids. Without the key, neither the stored hash nor the outbox opens a link. */
export interface LinkTokens {
  /** 256 bits in base64url. Never logged. */
  tokenOf(linkId: string): string;
  /** Replaces a stored `link` by the URL. */
  completed(values: Readonly<Record<string, MailValue>>): Record<string, MailValue>;
}

/** The origin is configured, never taken from a request. */
export function createLinkTokens(key: Buffer, origin: string): LinkTokens {
  const tokenOf = (linkId: string) =>
    createHmac("sha256", key).update(`gatehouse link ${linkId}`).digest("base64url");
  return {
    tokenOf,
    completed(values) {
      // Not every notice has one of its own.
      if (values.link === undefined) return { ...values, link: origin };
      const [, purpose = "", id = ""] = STORED_LINK.exec(String(values.link)) ?? [];
      const known = LINK_PURPOSES.find((candidate) => candidate === purpose);
      if (known === undefined) throw new Error("a mail in the outbox has a link this version does not know");
      return { ...values, link: `${origin}${PAGES[known]}?token=${tokenOf(id)}` };
    },
  };
}

export function storedLink(purpose: LinkPurpose, id: string): string {
  return `${purpose}:${id}`;
}

/** SHA-256, or undefined for an invalid format. */
export function hashOfToken(token: string): Buffer | undefined {
  return TOKEN.test(token) ? createHash("sha256").update(token).digest() : undefined;
}
