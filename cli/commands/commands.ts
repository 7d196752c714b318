import type { Command } from "../command.ts";
import { approvalsExport } from "./audit/approvals-export.ts";
import { approvalsProve } from "./audit/approvals-prove.ts";
import { auditCheckpoint } from "./audit/audit-checkpoint.ts";
import { auditExport } from "./audit/audit-export.ts";
import { auditSearch } from "./audit/audit-search.ts";
import { auditSummary } from "./audit/audit-summary.ts";
import { auditVerify } from "./audit/audit-verify.ts";
import { tail } from "./audit/tail.ts";
import { completionCommand } from "./completion.ts";
import { doctor } from "./doctor.ts";
import { accessCheck } from "./files/access-check.ts";
import { accessWhoCan } from "./files/access-who-can.ts";
import { breachListBuild, breachListCheck } from "./files/breach-list.ts";
import { certificatesIssue } from "./files/certificates-issue.ts";
import { configCheck } from "./files/config-check.ts";
import { languagesCheck, languagesTemplate } from "./files/languages.ts";
import { mailCheck, mailPreview, mailTest } from "./files/mail.ts";
import { routesCheck } from "./files/routes-check.ts";
import { routesAdd, routesList, routesRemove } from "./files/routes-edit.ts";
import { testTokenService } from "./files/test-token-service.ts";
import { health } from "./health.ts";
import { keysList } from "./keys/keys-list.ts";
import { keysRevoke } from "./keys/keys-revoke.ts";
import { keysRotate } from "./keys/keys-rotate.ts";
import { partsList, partsMove } from "./parts/parts.ts";
import { rpc } from "./rpc.ts";
import {
  clientsAddCredential,
  clientsChange,
  clientsCreate,
  clientsDelete,
  clientsList,
  clientsRemoveCredential,
  clientsShow,
} from "./users/clients.ts";
import { sessionsIssue } from "./users/sessions-issue.ts";
import { sessionsList } from "./users/sessions-list.ts";
import { sessionsRevoke, sessionsRevokeAll } from "./users/sessions-revoke.ts";
import {
  usersDisable,
  usersEnable,
  usersRequirePasswordChange,
  usersSetEmail,
  usersSetName,
  usersSetRole,
  usersUnlock,
} from "./users/users-access.ts";
import { usersEndSessions } from "./users/users-end-sessions.ts";
import { usersImport } from "./users/users-import.ts";
import { usersDelete, usersRemovePasskey, usersResetMfa } from "./users/users-irreversible.ts";
import { usersExport, usersList } from "./users/users-list.ts";
import { usersInvite, usersSendLink } from "./users/users-mail.ts";
import { usersShow } from "./users/users-show.ts";
import {
  webhooksChange,
  webhooksCreate,
  webhooksDelete,
  webhooksDeliveries,
  webhooksList,
  webhooksReplay,
  webhooksRotateSecret,
  webhooksTest,
} from "./webhooks/webhooks.ts";
import { webhooksListen } from "./webhooks/webhooks-listen.ts";

/** The help lists the commands in this order. */
export const COMMANDS: readonly Command[] = [
  keysList,
  keysRotate,
  keysRevoke,
  partsList,
  partsMove,
  usersList,
  usersExport,
  usersShow,
  usersInvite,
  usersSendLink,
  usersDisable,
  usersEnable,
  usersSetRole,
  usersSetEmail,
  usersSetName,
  usersRequirePasswordChange,
  usersUnlock,
  usersResetMfa,
  usersRemovePasskey,
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
  languagesCheck,
  languagesTemplate,
  mailCheck,
  mailPreview,
  mailTest,
  routesList,
  routesAdd,
  routesRemove,
  routesCheck,
  accessCheck,
  accessWhoCan,
  breachListBuild,
  breachListCheck,
  certificatesIssue,
  testTokenService,
  auditSearch,
  auditSummary,
  tail,
  auditExport,
  auditVerify,
  auditCheckpoint,
  approvalsExport,
  approvalsProve,
  webhooksList,
  webhooksCreate,
  webhooksChange,
  webhooksDelete,
  webhooksRotateSecret,
  webhooksTest,
  webhooksReplay,
  webhooksDeliveries,
  webhooksListen,
  sessionsList,
  sessionsIssue,
  sessionsRevoke,
  sessionsRevokeAll,
  health,
  doctor,
  configCheck,
  rpc,
  completionCommand(() => COMMANDS),
];
