import type { Command } from "./command.ts";
import { keysList } from "./keys-list.ts";
import { keysRevoke } from "./keys-revoke.ts";
import { keysRotate } from "./keys-rotate.ts";
import { routesCheck } from "./routes-check.ts";

/** Every subcommand, in the order of the help. */
export const COMMANDS: readonly Command[] = [keysList, keysRotate, keysRevoke, routesCheck];
