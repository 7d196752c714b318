import { auditCheckpoint } from "./audit-checkpoint.ts";
import { auditExport } from "./audit-export.ts";
import { auditSearch } from "./audit-search.ts";
import { auditVerify } from "./audit-verify.ts";
import type { Command } from "./command.ts";
import { keysList } from "./keys-list.ts";
import { keysRevoke } from "./keys-revoke.ts";
import { keysRotate } from "./keys-rotate.ts";

/** Every subcommand, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  keysList,
  keysRotate,
  keysRevoke,
  auditSearch,
  auditExport,
  auditVerify,
  auditCheckpoint,
];
