import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from "@simplewebauthn/browser";
import type {
  PasskeyCreationOptions,
  PasskeyRequestOptions,
} from "../../examples/typescript-client/generated/gatehouse.ts";

/** Whether this browser can use passkeys at this address: never at an IP address. */
export const canUsePasskeys = (): boolean =>
  typeof PublicKeyCredential === "function" && !/^[\d.]+$|^\[/.test(location.hostname);

/** Whether browsers here offer passkeys in the field of the e-mail address. */
export async function canAutofillPasskeys(): Promise<boolean> {
  return canUsePasskeys() && ((await PublicKeyCredential.isConditionalMediationAvailable?.()) ?? false);
}

/** Only the pages that need the library load it. */
const library = () => import("@simplewebauthn/browser");

/** @throws {DOMException} as `navigator.credentials.get`. */
export async function usePasskeyOnce(
  options: PasskeyRequestOptions,
  useBrowserAutofill = false,
): Promise<AuthenticationResponseJSON> {
  const { startAuthentication } = await library();
  const optionsJSON = options as PublicKeyCredentialRequestOptionsJSON;
  return startAuthentication({ optionsJSON, useBrowserAutofill, verifyBrowserAutofillInput: false });
}

/** @throws {DOMException} as `navigator.credentials.create`. */
export async function makePasskey(options: PasskeyCreationOptions): Promise<RegistrationResponseJSON> {
  const { startRegistration } = await library();
  return startRegistration({ optionsJSON: options as PublicKeyCredentialCreationOptionsJSON });
}

/** Ends the offer in the field, which another ceremony would compete with. */
export async function endPasskeyOffer(): Promise<void> {
  const { WebAuthnAbortService } = await library();
  WebAuthnAbortService.cancelCeremony();
}

/** A name for a new passkey that its owner may recognise. */
export function thisDevice(): string {
  const { platform } = (navigator as { userAgentData?: { platform?: string } }).userAgentData ?? {};
  return platform || "Passkey";
}
