/** The version of qkv, from CMakeLists.txt. */
declare const __VERSION__: string;

declare module "#mock" {
  export const MockTransport: (new () => import("./transport/transport").Transport) | null;
}
