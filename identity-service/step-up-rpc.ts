import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type {
  CompleteStepUpRequest,
  IdentityServiceServer,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import { acrOf, parseAcr } from "#token-client/assurance.ts";
import { optionsJson } from "./passkeys/passkey-ceremony.ts";
import { beginStepUp, type StepUpDeps } from "./step-up/begin-step-up.ts";
import { completeStepUp, type StepUpProof } from "./step-up/complete-step-up.ts";

export const STEP_UP_CALLERS = {
  beginStepUp: ["gateway"],
  completeStepUp: ["gateway"],
} as const satisfies Partial<Callers<IdentityServiceServer>>;

export function createStepUpRpc(
  deps: StepUpDeps,
): Pick<Implementation<IdentityServiceServer>, keyof typeof STEP_UP_CALLERS> {
  return {
    beginStepUp: async ({ userId, sessionId, currentAcr, wantedAcr }) => {
      const [current, wanted] = [parseAcr(currentAcr), parseAcr(wantedAcr)];
      if (current === undefined || (wanted === undefined && wantedAcr !== ""))
        throw new DomainError("validation_failed", "acr is unknown");
      const { passkey, methods, ...begun } = await beginStepUp(deps, { userId, sessionId, current, wanted });
      return { ...begun, methods: [...methods], passkeyOptionsJson: optionsJson(passkey) };
    },
    completeStepUp: async ({ proof, ...request }, context) => {
      if (proof === undefined) throw new DomainError("validation_failed", "proof is required");
      const attempt = { ...request, proof: decodeProof(proof) };
      const { acr, ...access } = await completeStepUp(deps, attempt, context);
      return { ...access, acr: acrOf(acr) };
    },
  };
}

function decodeProof(proof: NonNullable<CompleteStepUpRequest["proof"]>): StepUpProof["proof"] {
  return proof.$case === "passkey"
    ? { kind: "passkey", assertion: proof.value }
    : { kind: proof.$case, text: proof.value };
}
