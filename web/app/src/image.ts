// The picture that the model sees, as the engine keeps it.
import { useMemo, useRef } from "preact/hooks";
import { fromStrokes, toText } from "./drawing";
import { samplesOf, type Catalogue, type Model } from "./model";
import { u8 } from "./packet";
import { theClient, useCall, type Asked, type Request } from "./transport/client";
import type { Picture } from "./state";

export interface Seen {
  id: string; // of the engine
  model: Model; // its grid replaced by the image's own
  photo: [number, number]; // h, w of the picture shown
  where: [number, number, number, number]; // top, left, h, w in it of what the model sees
  grid: [number, number];
  png: Uint8Array;
}

/** The picture that is shown if none was chosen: the model's first sample, or a drawn three. */
export function pictureOf(catalogue: Catalogue, model: Model, picture: Picture | null): Picture | null {
  if (picture && (picture.kind !== "drawn" || !model.photo)) {
    if (picture.kind !== "sample") return picture;
    if (samplesOf(catalogue, model).some((sample) => sample.id === picture.id)) return picture;
  }
  const [first] = samplesOf(catalogue, model);
  if (first) return { kind: "sample", id: first.id };
  return model.photo ? null : { kind: "drawn", drawing: kThree };
}

const kThree = fromStrokes([
  [
    [0.3, 0.26],
    [0.42, 0.19],
    [0.56, 0.2],
    [0.64, 0.3],
    [0.58, 0.42],
    [0.45, 0.48],
    [0.6, 0.52],
    [0.67, 0.64],
    [0.6, 0.77],
    [0.45, 0.82],
    [0.3, 0.76],
  ],
]);

function requestOf(model: Model, picture: Picture | null): Request | null {
  const recorded = theClient().transport.kind === "recording";
  if (recorded) return { name: "image", json: { model: model.id } };
  if (!picture) return null;
  if (picture.kind === "sample") return { name: "image", json: { model: model.id, sample: picture.id } };
  if (picture.kind === "file") {
    return {
      name: "image",
      json: { model: model.id },
      arrays: { file: u8(picture.bytes) },
      salt: `file ${picture.key}`,
    };
  }
  const { height, width, pixels } = picture.drawing;
  return {
    name: "image",
    json: { model: model.id },
    arrays: { pixels: u8(pixels, [height, width]) },
    salt: toText(picture.drawing),
  };
}

/** The engine's image for this model, and the state of the call. */
export function useImage(
  catalogue: Catalogue,
  model: Model | null,
  chosen: Picture | null,
): Asked & { seen: Seen | null } {
  const request = useMemo(
    () => model && requestOf(model, pictureOf(catalogue, model, chosen)),
    [catalogue, model, chosen],
  );
  const asked = useCall(request);
  const { answer } = asked;
  const seen = useMemo(() => {
    if (!answer || !model || asked.request?.model !== model.id) return null;
    const { json, arrays } = answer;
    const grid = json.grid as [number, number];
    return {
      id: json.image,
      photo: json.photo,
      where: json.where,
      grid,
      png: arrays.png?.data,
      model: { ...model, grid },
    } as Seen;
  }, [answer, model]);
  // A picture that cannot be read leaves the one before in its place, and the error beside it.
  const last = useRef<Seen | null>(null);
  if (seen) last.current = seen;
  const kept = asked.error && last.current?.model.id === model?.id ? last.current : null;
  if (request && seen) {
    theClient().remind = async (id) => {
      if (id === seen.id)
        await theClient().transport.call(request.name, { json: request.json, arrays: request.arrays ?? {} });
    };
  }
  return { ...asked, seen: seen ?? kept };
}
