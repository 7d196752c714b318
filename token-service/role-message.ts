import { Role } from "../proto/gen/gatehouse/token/v1/principal.ts";
import type { SessionRow } from "./session-store.ts";

const MESSAGE: Record<SessionRow["role"], Role> = {
  USER: Role.USER,
  ADMIN: Role.ADMIN,
  AUDITOR: Role.AUDITOR,
};

export function toRoleMessage(role: SessionRow["role"]): Role {
  return MESSAGE[role];
}

/** UNSPECIFIED and values of newer versions grant nothing. */
export function fromRoleMessage(message: Role): SessionRow["role"] | undefined {
  return (Object.keys(MESSAGE) as SessionRow["role"][]).find((role) => MESSAGE[role] === message);
}
