// A grey picture as PNG, for the stand-in engine.

function crc(bytes: Uint8Array): number {
  let c = ~0;
  for (const byte of bytes) {
    c ^= byte;
    for (let k = 0; k < 8; ++k) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
  }
  return ~c >>> 0;
}

function chunk(name: string, body: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + body.length),
    view = new DataView(bytes.buffer);
  view.setUint32(0, body.length);
  bytes.set(new TextEncoder().encode(name), 4);
  bytes.set(body, 8);
  view.setUint32(8 + body.length, crc(bytes.subarray(4, 8 + body.length)));
  return bytes;
}

export async function encodePng(grey: Uint8Array, height: number, width: number): Promise<Uint8Array> {
  const head = new Uint8Array(13),
    view = new DataView(head.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  head[8] = 8;
  const rows = new Uint8Array(height * (width + 1));
  for (let y = 0; y < height; ++y) rows.set(grey.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const packed = new Uint8Array(
    await new Response(new Blob([rows]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer(),
  );
  const parts = [
    Uint8Array.of(137, 80, 78, 71, 13, 10, 26, 10),
    chunk("IHDR", head),
    chunk("IDAT", packed),
    chunk("IEND", new Uint8Array()),
  ];
  return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
}
