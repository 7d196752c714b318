import { join } from "node:path";
import { keptSecret, randomPassword, readIfPresent, writePrivateFile } from "./private-file.ts";

/** The administrator that the first start makes. */
export interface FirstAdministrator {
  email: string;
  password: string;
  passwordFile: string;
  /** False once everything was up with this administrator: changed settings no longer count. */
  isFirstStart: boolean;
}

/**
 * The first administrator's login: what the settings say, or a random password, until the first start has succeeded;
 * after that what was kept then.
 */
export async function firstAdministrator(options: {
  secrets: string;
  startedOnceFile: string;
  email: string;
  password: string | undefined;
}): Promise<FirstAdministrator> {
  const emailFile = join(options.secrets, "admin-email");
  const passwordFile = join(options.secrets, "admin-password");
  const isFirstStart = (await readIfPresent(options.startedOnceFile)) === undefined;
  if (isFirstStart) {
    await writePrivateFile(emailFile, `${options.email}\n`);
    if (options.password !== undefined) await writePrivateFile(passwordFile, `${options.password}\n`);
  }
  const email = await keptSecret(emailFile, () => options.email);
  const password = await keptSecret(passwordFile, () => options.password ?? randomPassword());
  return { email, password, passwordFile, isFirstStart };
}
