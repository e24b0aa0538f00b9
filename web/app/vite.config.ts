// Builds one self-contained HTML file: the script and the style are put into the page, so that the program can embed it
// and a folder of static files needs nothing else. index.html is the explorer; `--mode attend` builds attend.html, the page
// of `qkv attend`, and `--mode slide` slide.html, that of `qkv slide heatmap`. The development server passes the engine's
// calls on to the server at QKV_URL.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

// Replaces <script src> and <link rel=stylesheet> of the built page by their texts.
function oneFile(mode: string): Plugin {
  return {
    name: "qkv-one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find(({ fileName }) => fileName.endsWith(".html"));
      if (page?.type !== "asset") return;
      let html = String(page.source);
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === "chunk") {
          const text = `/*\n${licencesOf(mode)}*/\n${part.code}`
            .replace(/<\/script/gi, "<\\/script")
            .replace(/<!--/g, "<\\!--");
          html = html.replace(new RegExp(`\\s*<script[^>]*src="[^"]*${part.fileName}"[^>]*></script>`), "");
          html = html.replace("</body>", () => `<script type="module" id="program">${text}</script>\n</body>`);
        } else if (name.endsWith(".css")) {
          html = html.replace(
            new RegExp(`<link[^>]*href="[^"]*${part.fileName}"[^>]*>`),
            () => `<style id="style">${part.source}</style>`,
          );
        } else {
          continue;
        }
        delete bundle[name];
      }
      page.source = html.replace(
        '<meta charset="utf-8">',
        (charset) => `${charset}\n    <meta http-equiv="Content-Security-Policy" content="${policyOf(html, mode)}">`,
      );
    },
  };
}

// What the page may do: run its own script, show pictures that it made and, if it has an engine, speak to its own server or
// worker. The page of a slide shows the pictures beside it, from a disk too. 'wasm-unsafe-eval' is what browsers ask for to
// compile WebAssembly; nothing evaluates text.
function policyOf(html: string, mode: string): string {
  const engine = !kWithoutEngine.includes(mode);
  const hash = (tag: string) =>
    [...html.matchAll(new RegExp(`<${tag}[^>]* id="(?:program|style)">([\\s\\S]*?)</${tag}>`, "g"))]
      .slice(0, 1) // those inside the script are text
      .map(([, text]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
      .join(" ");
  return [
    "default-src 'none'",
    `script-src ${engine ? "'self' 'wasm-unsafe-eval' " : ""}${hash("script")}`,
    `style-src ${hash("style")}`,
    `img-src ${mode === "slide" ? "'self' file: " : engine ? "'self' " : ""}data: blob:`,
    ...(engine ? ["connect-src 'self' data: blob:", "worker-src 'self' blob:"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

// Pages with data inside, each `--mode NAME`.
const kWithoutEngine = ["attend", "slide"];

function licencesOf(mode: string): string {
  const packages = [["Preact", "preact/LICENSE"]];
  if (mode === "slide") packages.push(["OpenSeadragon", "openseadragon/LICENSE.txt"]);
  return packages
    .map(([name, file]) => `Part of this script is ${name}:\n\n${readFileSync(`node_modules/${file}`, "utf8")}`)
    .join("\n");
}

const version = /project\(\s*qkv\s+VERSION\s+([\d.]+)/i.exec(readFileSync("../../CMakeLists.txt", "utf8"))?.[1] ?? "";

const remote = process.env.QKV_URL?.replace(/\/$/, "");

export default defineConfig(({ mode }) => ({
  base: "./",
  define: { __VERSION__: JSON.stringify(version) },
  server: {
    fs: { allow: ["../.."] },
    // The server answers its own pages only.
    proxy: remote ? { "/explore": { target: remote, changeOrigin: true, headers: { origin: remote } } } : {},
  },
  plugins: [oneFile(mode)],
  build: {
    target: "es2022",
    assetsInlineLimit: 1 << 24,
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 8000,
    emptyOutDir: !kWithoutEngine.includes(mode),
    rollupOptions: {
      input: kWithoutEngine.includes(mode) ? `${mode}.html` : "index.html",
      output: { inlineDynamicImports: true },
    },
  },
  test: { include: ["tests/unit/*.test.ts"] },
}));
