import type { System } from "../system/system.ts";
import type { ApiClient } from "./api-client.ts";
import { linkIn, mailAbout } from "./mailbox.ts";

const SUBJECT = "Confirm your e-mail address";

/** The token of the newest verification mail of an address. @param count how many such mails there are by then. */
export async function verificationToken(
  system: Pick<System, "ports">,
  email: string,
  count = 1,
): Promise<string> {
  const link = linkIn(await mailAbout(system, email, SUBJECT, count));
  return link.searchParams.get("token") ?? "";
}

/** Verifies the address of a new user with the password, so that its credentials are proven. */
export async function proveAddress(
  system: Pick<System, "ports">,
  api: ApiClient,
  user: { email: string; password: string },
): Promise<void> {
  const token = await verificationToken(system, user.email);
  const answer = await api.post("/auth/verify-email", { token, password: user.password });
  if (answer.status !== 200) throw new Error(`verify: ${answer.status} ${JSON.stringify(answer.body)}`);
}
