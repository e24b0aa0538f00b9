import { describe, expect, it } from "vitest";
import { isModel, nameOf } from "../../src/own_files";

const files = (...paths: string[]) => paths.map((path) => ({ path, file: null as unknown as File }));

describe("files of the reader's own", () => {
  it("are a model by weights or config.json, else a picture", () => {
    expect(isModel(files("vit/config.json", "vit/model.safetensors"))).toBe(true);
    expect(isModel(files("vit.safetensors"))).toBe(true);
    expect(isModel(files("vit/pytorch_model.bin"))).toBe(true);
    expect(isModel(files("config.json"))).toBe(true);
    expect(isModel(files("photo.heic"))).toBe(false);
    expect(isModel(files("myconfig.json", "photo.png"))).toBe(false);
  });
  it("give the model its folder's name, else that of the weights", () => {
    expect(nameOf(files("vit/config.json", "vit/model.safetensors"))).toBe("vit");
    expect(nameOf(files("config.json", "cats.safetensors"))).toBe("cats");
    expect(nameOf(files("config.json"))).toBe("model");
  });
});
