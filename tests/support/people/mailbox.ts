import { expect } from "vitest";
import type { System } from "../system/system.ts";

/** A mail as the local mailbox has it. */
export interface ReceivedMail {
  subject: string;
  text: string;
  html: string;
  to: { address: string }[];
}

/** All that a mailbox received, oldest first. @param port of its page. */
export async function allMails(port: number): Promise<ReceivedMail[]> {
  const response = await fetch(`http://127.0.0.1:${port}/email`);
  return (await response.json()) as ReceivedMail[];
}

/** What the mailbox of a running system received for an address, oldest first. */
export async function mailsTo(system: Pick<System, "ports">, address: string): Promise<ReceivedMail[]> {
  const query = new URLSearchParams({ "to.address": address.toLowerCase() });
  const response = await fetch(`http://127.0.0.1:${system.ports.MAILBOX_PORT}/email?${query}`);
  return (await response.json()) as ReceivedMail[];
}

/** The newest mail with a subject, once there are as many as expected. */
export async function mailAbout(
  system: Pick<System, "ports">,
  address: string,
  subject: string,
  count = 1,
): Promise<ReceivedMail> {
  const found = async () => (await mailsTo(system, address)).filter((mail) => mail.subject === subject);
  await expect.poll(async () => (await found()).length).toBe(count);
  const mail = (await found()).at(-1);
  if (mail === undefined) throw new Error(`no mail: ${subject}`);
  return mail;
}

/** The link of a mail, the same in its text and its HTML. */
export function linkIn({ text, html }: ReceivedMail): URL {
  const [link = ""] = /https?:\/\/\S+/.exec(text) ?? [];
  expect(html).toContain(`href="${link}"`);
  return new URL(link);
}
