import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { errorText } from "./launch-error.ts";

/** Resolves when a child process has ended, with how, in words. Never rejects. Call it right after the spawn. */
export async function howItEnded(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = await once(child, "exit");
    return signal ? `signal ${signal}` : `exit code ${code}`;
  } catch (error) {
    return `it could not be started: ${errorText(error)}`;
  }
}
