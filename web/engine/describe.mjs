// Completes models/index.json of the page's folder by what the engine says of each model, so that the page can list a model
// before its files are fetched. Run by tools/web_folder.py: node web/engine/describe.mjs FOLDER
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Engine } from "./node.mjs";

const [folder] = process.argv.slice(2);
const path = join(folder, "models/index.json");
const index = JSON.parse(readFileSync(path, "utf8"));
const engine = await Engine.start(folder);
for (const { id, title, files } of index.models) engine.add(id, join(folder, "models", id), files, title);
const { models } = engine.call("models", {}).json;
for (const model of index.models) {
  model.described = models.find(({ id }) => id === model.id);
  if (model.described.error) throw new Error(`${model.id}: ${model.described.error}`);
}
writeFileSync(path, JSON.stringify(index));
