import { type AccessFile, BUILT_IN_PERMISSIONS } from "./access-file.ts";

/** What a role may have. Undefined: the default of token-service. */
export interface SessionLimits {
  idleS: number | undefined;
  absoluteS: number | undefined;
  /** Live sessions of a user at a time. */
  atMost: number | undefined;
}

/** What each role may do now. A role that is not in the file may do nothing. */
export interface AccessRules {
  readonly defaultRole: string;
  readonly roles: readonly string[];
  isDefined(role: string): boolean;
  /** Whether the file or Gatehouse itself knows it. */
  isPermission(name: string): boolean;
  /** Each that is known and held. */
  permissionsOf(role: string): readonly string[];
  holds(role: string, permission: string): boolean;
  /** Whether the actor holds all that the role holds. */
  mayAssign(actor: PermissionHolder, role: string): boolean;
  /** Whether the actor holds all built-in permissions that the user's role holds. */
  mayActOn(actor: PermissionHolder, userRole: string): boolean;
  sessionLimits(role: string): SessionLimits;
}

/** A user by their role, or a client by what its token was granted. */
export interface PermissionHolder {
  role: string;
  /** Present for clients, whose `role` is empty. */
  scopes?: readonly string[] | undefined;
}

export function holdsPermission(
  rules: Pick<AccessRules, "holds">,
  { role, scopes }: PermissionHolder,
  permission: string,
): boolean {
  return scopes === undefined ? rules.holds(role, permission) : covers(new Set(scopes), permission);
}

/** `audit:read` covers `audit:read:user`. */
function covers(held: ReadonlySet<string>, permission: string): boolean {
  if (held.has(permission)) return true;
  for (let end = permission.lastIndexOf(":"); end !== -1; end = permission.lastIndexOf(":", end - 1)) {
    if (held.has(permission.slice(0, end))) return true;
  }
  return false;
}

interface RoleRules {
  holdsAll: boolean;
  held: ReadonlySet<string>;
  limits: SessionLimits;
}

interface Compiled {
  defaultRole: string;
  roles: ReadonlyMap<string, RoleRules>;
  permissions: readonly string[];
}

const NO_LIMITS: SessionLimits = { idleS: undefined, absoluteS: undefined, atMost: undefined };

/** Replaced as a whole. */
export class AccessTable implements AccessRules {
  #rules: Compiled;

  constructor(file: AccessFile) {
    this.#rules = compile(file);
  }

  replace(file: AccessFile): void {
    this.#rules = compile(file);
  }

  get defaultRole(): string {
    return this.#rules.defaultRole;
  }

  get roles(): readonly string[] {
    return [...this.#rules.roles.keys()];
  }

  get permissions(): readonly string[] {
    return this.#rules.permissions;
  }

  isDefined(role: string): boolean {
    return this.#rules.roles.has(role);
  }

  isPermission(name: string): boolean {
    return this.#rules.permissions.includes(name);
  }

  permissionsOf(role: string): readonly string[] {
    return this.#rules.permissions.filter((name) => this.holds(role, name));
  }

  holds(role: string, permission: string): boolean {
    const rules = this.#rules.roles.get(role);
    return rules !== undefined && (rules.holdsAll || covers(rules.held, permission));
  }

  mayAssign(actor: PermissionHolder, role: string): boolean {
    return this.isDefined(role) && this.#holdsThoseOf(actor, role, () => true);
  }

  mayActOn(actor: PermissionHolder, userRole: string): boolean {
    return this.#holdsThoseOf(actor, userRole, isBuiltIn);
  }

  sessionLimits(role: string): SessionLimits {
    return this.#rules.roles.get(role)?.limits ?? NO_LIMITS;
  }

  #holdsThoseOf(
    { role: actorRole, scopes }: PermissionHolder,
    role: string,
    counts: (permission: string) => boolean,
  ): boolean {
    const { roles } = this.#rules;
    const actor = scopes === undefined ? roles.get(actorRole) : { holdsAll: false, held: new Set(scopes) };
    const other = roles.get(role);
    if (actor === undefined) return false;
    if (actor.holdsAll) return true;
    // `*` includes the permissions of later files.
    if (other?.holdsAll === true) return false;
    return [...(other?.held ?? [])].every((name) => !counts(name) || covers(actor.held, name));
  }
}

function isBuiltIn(name: string): boolean {
  return (BUILT_IN_PERMISSIONS as readonly string[]).includes(name);
}

function compile({ permissions, roles, defaultRole, sessions }: AccessFile): Compiled {
  return {
    defaultRole,
    permissions: [...BUILT_IN_PERMISSIONS, ...permissions],
    roles: new Map(
      Object.entries(roles).map(([role, list]) => {
        const { idleMinutes, absoluteHours, atMost } = sessions[role] ?? {};
        const limits = {
          idleS: idleMinutes === undefined ? undefined : idleMinutes * 60,
          absoluteS: absoluteHours === undefined ? undefined : absoluteHours * 3_600,
          atMost,
        };
        return [role, { holdsAll: list.includes("*"), held: new Set(list), limits }];
      }),
    ),
  };
}
