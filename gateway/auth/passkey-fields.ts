import { z } from "zod";
import { intLike, optional, textField, textLike } from "../routing/fields.ts";

const BASE64URL = /^[A-Za-z0-9_-]*$/;
const CHALLENGE = "uLbhQ0Lh0Tn1yqJt8c2yYwqYt0XQ9aZrVtqk9cQzvLw";

function binaryField(min: number, max: number, example: string, description?: string) {
  const about = { examples: [example], ...(description !== undefined && { description }) };
  return z
    .string()
    .min(min)
    .max(max, { abort: true })
    .regex(BASE64URL, "must be base64url without padding")
    .meta(about);
}

/** 1,023 bytes (WebAuthn Level 3 §4, Credential ID). */
const credentialIdField = binaryField(
  1,
  1_364,
  "dGhpcyBpcyBhIGNyZWRlbnRpYWwgaWQ",
  "Base64url, as everything binary.",
);
const clientDataField = binaryField(1, 2_048, "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0");
/** Browsers add what later levels of the standard define. */
const IGNORED = "What else `PublicKeyCredential.toJSON()` gives is ignored.";

/** RegistrationResponseJSON (WebAuthn Level 3 §5.1). */
export const attestationField = z
  .object({
    id: credentialIdField,
    type: z.literal("public-key"),
    response: z.object({
      clientDataJSON: clientDataField,
      attestationObject: binaryField(1, 16_384, "o2NmbXRkbm9uZQ"),
      transports: optional(z.array(textField(1, 32, { examples: ["internal"] })).max(16)),
    }),
  })
  .meta({ id: "PasskeyAttestation", description: IGNORED });

/** AuthenticationResponseJSON (WebAuthn Level 3 §5.1). */
export const assertionField = z
  .object({
    id: credentialIdField,
    type: z.literal("public-key"),
    response: z.object({
      clientDataJSON: clientDataField,
      authenticatorData: binaryField(1, 1_024, "SZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2MFAAAAAA"),
      signature: binaryField(1, 1_024, "MEUCIQDx"),
      userHandle: optional(binaryField(0, 128, "AZmgAAAAcACAAAAAAAAAAQ").nullable()),
    }),
  })
  .meta({ id: "PasskeyAssertion", description: IGNORED });

/** Converted to the form of identity-service. */
export function toAttestation({ id, response }: z.output<typeof attestationField>) {
  const { clientDataJSON, attestationObject, transports = [] } = response;
  return { credentialId: id, clientDataJson: clientDataJSON, attestationObject, transports };
}

export function toAssertion({ id, response }: z.output<typeof assertionField>) {
  const { clientDataJSON, authenticatorData, signature, userHandle } = response;
  return {
    credentialId: id,
    clientDataJson: clientDataJSON,
    authenticatorData,
    signature,
    userHandle: userHandle ?? "",
  };
}

/** One of both is the proof. */
export function toCodeOrPasskey(proof: { code: string } | { passkey: z.output<typeof assertionField> }) {
  if ("passkey" in proof) return { code: "", passkey: toAssertion(proof.passkey) };
  return { code: proof.code, passkey: undefined };
}

const typeField = z.literal("public-key");
const challengeField = textLike(CHALLENGE, "256 bits, good for five minutes and one answer.");
const credentialAnswer = z.strictObject({
  id: textLike("dGhpcyBpcyBhIGNyZWRlbnRpYWwgaWQ"),
  type: typeField,
  transports: z.array(textLike("internal")),
});

/** PublicKeyCredentialCreationOptionsJSON (WebAuthn Level 3 §5.1.9). */
export const creationOptionsAnswer = z
  .strictObject({
    challenge: challengeField,
    rp: z.strictObject({ id: textLike("example.com"), name: textLike("Gatehouse") }),
    user: z.strictObject({
      id: textLike("AZmgAAAAcACAAAAAAAAAAQ", "The user's id: 16 bytes."),
      name: textLike("ada@example.com"),
      displayName: textLike("Ada Lovelace"),
    }),
    pubKeyCredParams: z.array(z.strictObject({ alg: intLike(-8, "RFC 9053."), type: typeField })),
    timeout: intLike(300_000, "In milliseconds."),
    attestation: z.literal("none"),
    excludeCredentials: z.array(credentialAnswer),
    authenticatorSelection: z.strictObject({
      residentKey: z.literal("required"),
      requireResidentKey: z.literal(true),
      userVerification: z.literal("required"),
    }),
    extensions: z.strictObject({ credProps: z.boolean() }),
    hints: z.array(textLike("client-device")),
  })
  .meta({
    id: "PasskeyCreationOptions",
    description: "For `PublicKeyCredential.parseCreationOptionsFromJSON()`.",
  });

/** PublicKeyCredentialRequestOptionsJSON (WebAuthn Level 3 §5.1.10). */
export const requestOptionsAnswer = z
  .strictObject({
    challenge: challengeField,
    rpId: textLike("example.com"),
    allowCredentials: z.array(credentialAnswer),
    timeout: intLike(300_000, "In milliseconds."),
    userVerification: z.literal("required"),
  })
  .meta({
    id: "PasskeyRequestOptions",
    description: "For `PublicKeyCredential.parseRequestOptionsFromJSON()`.",
  });

/** Undefined without a text: the user has no passkey. */
export function readRequestOptions(json = ""): z.output<typeof requestOptionsAnswer> | undefined {
  return json === "" ? undefined : readOptions(requestOptionsAnswer, json);
}

/** @throws for what is no such options: identity-service made them. */
export function readOptions<T>(schema: z.ZodType<T>, json: string): T {
  return schema.parse(JSON.parse(json));
}
