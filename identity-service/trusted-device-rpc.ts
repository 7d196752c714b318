import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import type { IdentityServiceServer } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { LoginDeps } from "./login/login-deps.ts";
import { listTrustedDevices, removeTrustedDevice } from "./login/trust-device.ts";
import { decodeOwner } from "./passwords/owner-rpc.ts";

type TrustedDeviceMethods = "listTrustedDevices" | "removeTrustedDevice";

export const TRUSTED_DEVICE_CALLERS: Pick<Callers<IdentityServiceServer>, TrustedDeviceMethods> = {
  listTrustedDevices: ["gateway"],
  removeTrustedDevice: ["gateway"],
};

export function createTrustedDeviceRpc(
  deps: LoginDeps,
): Pick<Implementation<IdentityServiceServer>, TrustedDeviceMethods> {
  return {
    listTrustedDevices: async ({ userId }) => ({ trustedDevices: await listTrustedDevices(deps, userId) }),
    removeTrustedDevice: async (request, context) => {
      await removeTrustedDevice(deps, decodeOwner(request), context);
      return {};
    },
  };
}
