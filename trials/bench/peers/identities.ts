import { BETTER_AUTH } from "./better-auth.ts";
import { KEYCLOAK } from "./keycloak.ts";
import { KRATOS } from "./kratos.ts";
import type { IdentityPeer } from "./peer.ts";

/** Identity systems that are compared with Gatehouse. */
export const IDENTITIES: readonly IdentityPeer[] = [...KEYCLOAK, KRATOS, BETTER_AUTH];
