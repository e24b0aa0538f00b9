// Runs the browser tests on the page of the server at QKV_URL: node tests/run.mjs [name…].
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("browser/", import.meta.url)),
  wanted = process.argv.slice(2);
const files = readdirSync(folder).filter(
  (name) => name.endsWith(".test.mjs") && (!wanted.length || wanted.some((each) => name.startsWith(each))),
);
const run = spawn(
  process.execPath,
  [
    "--test",
    `--test-concurrency=${process.env.QKV_CONCURRENCY ?? 2}`,
    "--test-reporter=spec",
    ...files.map((name) => folder + name),
  ],
  { stdio: "inherit" },
);
run.on("exit", (code) => process.exit(code ?? 1));
