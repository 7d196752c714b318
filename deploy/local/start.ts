// `npm start`. The launcher's bundle loads in half of the time; without one it builds it while it starts.
import { builtPrograms } from "../programs/programs.ts";

await import(builtPrograms()?.["deploy/local/launch.ts"] ?? "./launch.ts");
