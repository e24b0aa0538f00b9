// In place of the stand-in engine, in every page but that of the tests.
import type { Transport } from "../transport";

export const MockTransport: (new () => Transport) | null = null;
