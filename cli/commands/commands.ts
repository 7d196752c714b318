import type { Command } from "../command.ts";
import { accessCheck } from "./access-check.ts";
import { accessWhoCan } from "./access-who-can.ts";
import { approvalsExport } from "./approvals-export.ts";
import { approvalsProve } from "./approvals-prove.ts";
import { auditCheckpoint } from "./audit-checkpoint.ts";
import { auditExport } from "./audit-export.ts";
import { auditSearch } from "./audit-search.ts";
import { auditSummary } from "./audit-summary.ts";
import { auditVerify } from "./audit-verify.ts";
import { breachListBuild, breachListCheck } from "./breach-list.ts";
import {
  clientsAddCredential,
  clientsChange,
  clientsCreate,
  clientsDelete,
  clientsList,
  clientsRemoveCredential,
  clientsShow,
} from "./clients.ts";
import { completionCommand } from "./completion.ts";
import { configCheck } from "./config-check.ts";
import { doctor } from "./doctor.ts";
import { health } from "./health.ts";
import { keysList } from "./keys-list.ts";
import { keysRevoke } from "./keys-revoke.ts";
import { keysRotate } from "./keys-rotate.ts";
import { routesCheck } from "./routes-check.ts";
import { routesAdd, routesList, routesRemove } from "./routes-edit.ts";
import { rpc } from "./rpc.ts";
import { sessionsList } from "./sessions-list.ts";
import { sessionsRevoke, sessionsRevokeAll } from "./sessions-revoke.ts";
import { tail } from "./tail.ts";
import {
  usersDisable,
  usersEnable,
  usersRequirePasswordChange,
  usersSetRole,
  usersUnlock,
} from "./users-access.ts";
import { usersEndSessions } from "./users-end-sessions.ts";
import { usersImport } from "./users-import.ts";
import { usersDelete, usersResetMfa } from "./users-irreversible.ts";
import { usersList } from "./users-list.ts";
import { usersShow } from "./users-show.ts";

/** The help lists the commands in this order. */
export const COMMANDS: readonly Command[] = [
  keysList,
  keysRotate,
  keysRevoke,
  usersList,
  usersShow,
  usersDisable,
  usersEnable,
  usersSetRole,
  usersRequirePasswordChange,
  usersUnlock,
  usersResetMfa,
  usersEndSessions,
  usersDelete,
  usersImport,
  clientsList,
  clientsShow,
  clientsCreate,
  clientsChange,
  clientsDelete,
  clientsAddCredential,
  clientsRemoveCredential,
  routesList,
  routesAdd,
  routesRemove,
  routesCheck,
  accessCheck,
  accessWhoCan,
  breachListBuild,
  breachListCheck,
  auditSearch,
  auditSummary,
  tail,
  auditExport,
  auditVerify,
  auditCheckpoint,
  approvalsExport,
  approvalsProve,
  sessionsList,
  sessionsRevoke,
  sessionsRevokeAll,
  health,
  doctor,
  configCheck,
  rpc,
  completionCommand(() => COMMANDS),
];
