"""Small image files of every format and mode that qkv reads, as {name: bytes}.

What Pillow writes is written by Pillow; the variants that it only reads are put together here by hand.
"""
import io
import struct
import zlib

import numpy as np
from PIL import Image

W, H = 19, 13


def picture(width=W, height=H, channels=3, seed=0, dtype=np.uint8):
    """Slopes with some noise, so that filters and lossy codecs have something to do."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        255 * (0.5 + 0.5 * np.sin(0.4 * x * (c + 1) / 2 + 0.3 * y + c)) + rng.normal(0, 12, (height, width))
        for c in range(channels)
    ]
    image = np.clip(np.stack(planes, -1), 0, 255)
    if dtype == np.uint16:
        return np.clip(image * 257 + rng.integers(0, 256, image.shape), 0, 65535).astype(np.uint16)
    return image.astype(np.uint8)


def pil(mode, seed=0, width=W, height=H):
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    data = picture(width, height, channels, seed)
    return Image.fromarray(data[..., 0] if channels == 1 else data, mode)


def save(image, fmt, **options):
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def xmp(orientation):
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description '
        f'tiff:Orientation="{orientation}"/></rdf:RDF></x:xmpmeta>'
    ).encode()


# JPEG


def jpeg_files():
    files = {}
    rgb = pil("RGB", width=37, height=29)
    for name, options in {
        "444": dict(subsampling=0), "422": dict(subsampling=1), "420": dict(subsampling=2),
        "420_progressive": dict(subsampling=2, progressive=True), "420_q30": dict(subsampling=2, quality=30),
        "restarts": dict(restart_marker_blocks=2), "rgb": dict(keep_rgb=True),
    }.items():
        files[f"jpeg_{name}.jpg"] = save(rgb, "JPEG", **options)
    files["jpeg_grey.jpg"] = save(pil("L"), "JPEG")
    files["jpeg_grey_progressive.jpg"] = save(pil("L"), "JPEG", progressive=True)
    cmyk = save(pil("CMYK"), "JPEG", quality=95)
    files["jpeg_cmyk.jpg"] = cmyk
    at = cmyk.index(b"Adobe") + 11  # the colour transform: 2 says YCCK
    files["jpeg_ycck.jpg"] = cmyk[:at] + b"\x02" + cmyk[at + 1:]
    for orientation in range(1, 9):
        files[f"jpeg_exif_{orientation}.jpg"] = save(pil("RGB", 1, 11, 7), "JPEG", exif=exif(orientation))
    files["jpeg_exif_9.jpg"] = save(pil("RGB", 1, 11, 7), "JPEG", exif=exif(9))
    files["jpeg_xmp_6.jpg"] = save(pil("RGB", 1, 11, 7), "JPEG", xmp=xmp(6))
    files["jpeg_one_pixel.jpg"] = save(pil("RGB", 2, 1, 1), "JPEG")
    return files


# PNG


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_bits(samples, bits):
    """Rows of samples of 1, 2, 4 or 8 bits, the first in the high bits; 16 bits go big-endian."""
    if bits == 16:
        return samples.astype(">u2").tobytes()
    if bits == 8:
        return samples.astype(np.uint8).tobytes()
    bit = (samples[:, None] >> np.arange(bits - 1, -1, -1)) & 1
    return np.packbits(bit.reshape(-1).astype(np.uint8)).tobytes()


def png(samples, bits, colour_type, interlace=False, chunks=()):
    """samples: [height, width, channels]"""
    height, width, _ = samples.shape
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, int(interlace))
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b""
    for y0, x0, dy, dx in passes if interlace else [(0, 0, 1, 1)]:
        part = samples[y0::dy, x0::dx]
        if part.size:
            data += b"".join(b"\0" + pack_bits(row.reshape(-1).astype(np.int64), bits) for row in part)
    body = b"".join(png_chunk(kind, content) for kind, content in chunks)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + body
            + png_chunk(b"IDAT", zlib.compress(data)) + png_chunk(b"IEND", b""))


def png_files():
    files = {}
    rng = np.random.default_rng(3)
    for interlace in (False, True):
        end = "_interlaced" if interlace else ""
        for bits in (1, 2, 4, 8, 16):
            kind = np.uint16 if bits == 16 else np.uint8
            grey = picture(channels=1, dtype=kind).astype(np.int64) >> (0 if bits >= 8 else 8 - bits)
            files[f"png_grey_{bits}{end}.png"] = png(grey, bits, 0, interlace)
            if bits <= 8:
                palette = rng.integers(0, 256, 3 << bits, dtype=np.uint8).tobytes()
                files[f"png_palette_{bits}{end}.png"] = png(grey, bits, 3, interlace, [(b"PLTE", palette)])
            if bits >= 8:
                for name, channels, colour_type in (("rgb", 3, 2), ("grey_alpha", 2, 4), ("rgba", 4, 6)):
                    data = picture(channels=channels, dtype=kind)
                    files[f"png_{name}_{bits}{end}.png"] = png(data, bits, colour_type, interlace)
    grey = picture(channels=1)
    palette = rng.integers(0, 256, 768, dtype=np.uint8).tobytes()
    alphas = rng.integers(0, 256, 200, dtype=np.uint8).tobytes()
    files["png_palette_alpha.png"] = png(grey, 8, 3, False, [(b"PLTE", palette), (b"tRNS", alphas)])
    files["png_palette_4_alpha.png"] = png(grey >> 4, 4, 3, False, [(b"PLTE", palette[:48]), (b"tRNS", b"\0\x80")])
    files["png_grey_transparent.png"] = png(grey, 8, 0, False, [(b"tRNS", struct.pack(">H", grey[3, 4, 0]))])
    grey16 = picture(channels=1, dtype=np.uint16)
    files["png_grey_16_transparent.png"] = png(grey16, 16, 0, False, [(b"tRNS", struct.pack(">H", grey16[3, 4, 0]))])
    small = (picture(channels=1, dtype=np.uint16) >> 7).astype(np.int64)  # some above 255, some below
    files["png_grey_16_small.png"] = png(small, 16, 0)
    rgb = picture()
    colour = struct.pack(">HHH", *rgb[3, 4].tolist())
    files["png_rgb_transparent.png"] = png(rgb, 8, 2, False, [(b"tRNS", colour)])
    files["png_gamma.png"] = png(rgb, 8, 2, False, [(b"gAMA", struct.pack(">I", 45455)), (b"sBIT", b"\5\6\5")])
    for orientation in (3, 6):
        files[f"png_exif_{orientation}.png"] = save(pil("RGB", 1, 11, 7), "PNG", exif=exif(orientation))
    text = b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(8)
    files["png_xmp_8.png"] = png(picture(11, 7), 8, 2, False, [(b"iTXt", text)])
    profile = f"\nexif\n{len(exif(6)):8}\n{exif(6).hex()}\n".encode()
    text = b"Raw profile type exif\0\0" + zlib.compress(profile)
    files["png_raw_profile_6.png"] = png(picture(11, 7), 8, 2, False, [(b"zTXt", text)])
    files["png_filters.png"] = save(pil("RGB", 5, 41, 31), "PNG", optimize=True)
    return files


# WebP and GIF


def gif(indices, palette, screen=None, offset=(0, 0), transparent=None, local=False, interlace=False, background=0):
    height, width = indices.shape
    screen = screen or (width, height)
    table = bytes(palette)
    bits = (len(table) // 3).bit_length() - 2 if table else 7
    flags = 0x80 | bits if table and not local else 0
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, flags, background, 0) + (table if flags else b"")
    if transparent is not None:
        out += b"!\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0"
    flags = (0x80 | bits if table and local else 0) | (0x40 if interlace else 0)
    out += b"," + struct.pack("<HHHHB", *offset, width, height, flags) + (table if local else b"")
    rows = list(range(height))
    if interlace:
        rows = rows[0::8] + rows[4::8] + rows[2::4] + rows[1::2]
    # Nine-bit codes with a clear code before the table could grow to ten: no compression, and valid.
    codes = []
    for i, index in enumerate(indices[rows].reshape(-1).tolist()):
        codes += [256, index] if i % 200 == 0 else [index]
    stream = sum(code << (9 * i) for i, code in enumerate(codes + [257]))
    data = stream.to_bytes((9 * (len(codes) + 1) + 7) // 8, "little")
    out += b"\x08" + b"".join(bytes([len(data[i:i + 255])]) + data[i:i + 255] for i in range(0, len(data), 255))
    return out + b"\0;"


def webp_and_gif_files():
    files = {
        "webp_lossy.webp": save(pil("RGB", 0, 37, 29), "WEBP", quality=70),
        "webp_lossy_alpha.webp": save(pil("RGBA", 0, 37, 29), "WEBP", quality=70),
        "webp_lossless.webp": save(pil("RGB"), "WEBP", lossless=True),
        "webp_lossless_alpha.webp": save(pil("RGBA"), "WEBP", lossless=True, exact=True),
        "webp_exif_5.webp": save(pil("RGB", 1, 11, 7), "WEBP", exif=exif(5)),
        "webp_xmp_7.webp": save(pil("RGB", 1, 11, 7), "WEBP", xmp=xmp(7)),
        "webp_animation.webp": save(pil("RGB", 1, 16, 12), "WEBP", save_all=True,
                                    append_images=[pil("RGB", 2, 16, 12)]),
    }
    rng = np.random.default_rng(4)
    palette = rng.integers(0, 256, 768, dtype=np.uint8)
    indices = picture(channels=1)[..., 0]
    files |= {
        "gif_plain.gif": gif(indices, palette),
        "gif_pillow.gif": save(pil("RGB", 0, 37, 29), "GIF"),
        "gif_animation.gif": save(pil("RGB", 1), "GIF", save_all=True, append_images=[pil("RGB", 2)]),
        "gif_interlaced.gif": gif(indices, palette, interlace=True),
        "gif_local_palette.gif": gif(indices, palette, local=True),
        "gif_no_palette.gif": gif(indices, b""),
        "gif_transparent.gif": gif(indices, palette, transparent=int(indices[2, 3])),
        "gif_offset.gif": gif(indices, palette, screen=(25, 20), offset=(4, 3), background=7),
        "gif_offset_transparent.gif": gif(indices, palette, screen=(25, 20), offset=(4, 3), transparent=9),
        "gif_overhang.gif": gif(indices, palette, screen=(10, 10), offset=(4, 3)),
        "gif_short_palette.gif": gif(indices & 7, palette[:12]),  # indices past its end
    }
    return files


# BMP and PNM


def bmp(rows, width, height, bits, compression=0, palette=b"", masks=b"", header=40, top_down=False, colours=0):
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, compression,
                           len(rows), 2835, 2835, colours, 0) + masks
        info += b"\0" * max(0, header - len(info))
    at = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + info + palette + rows


def padded(rows):
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def bmp_rle(indices, four_bits):
    """Runs, single pixels, a jump and ends of rows, from the bottom."""
    out = b""
    for y, row in enumerate(indices[::-1].tolist()):
        if four_bits:
            singles = row[:7]
            packed = bytes((singles[i] << 4) | (singles[i + 1] if i + 1 < 7 else 0) for i in range(0, 7, 2))
            out += bytes([0, 7]) + packed + bytes([6, (row[7] << 4) | row[8], len(row) - 13, row[13] << 4 | row[13]])
        else:
            out += bytes([0, 5]) + bytes(row[:5]) + b"\0" + bytes([8, row[5]])
            out += b"\0\2\2\0" if y == 4 else b""
            out += bytes([len(row) - 15, row[-1]])
        out += b"\0\0"
    return out + b"\0\1"


def bmp_files():
    rng = np.random.default_rng(5)
    files = {}
    grey = picture(channels=1)[..., 0].astype(np.int64)
    rgb, rgba = picture(), picture(channels=4)
    for bits in (1, 4, 8):
        count = 1 << bits
        bgr = rng.integers(0, 256, (count, 3), dtype=np.uint8)
        quads = np.concatenate([bgr, np.zeros((count, 1), np.uint8)], 1).tobytes()
        rows = padded(pack_bits(row, bits) for row in (grey >> (8 - bits))[::-1])
        files[f"bmp_{bits}.bmp"] = bmp(rows, W, H, bits, palette=quads)
        files[f"bmp_{bits}_os2.bmp"] = bmp(rows, W, H, bits, palette=bgr.tobytes(), header=12)
    few = rng.integers(0, 256, (5, 4), dtype=np.uint8).tobytes()
    files["bmp_few_colours.bmp"] = bmp(padded(row.astype(np.uint8).tobytes() for row in (grey % 7)), W, H, 8,
                                       palette=few, colours=5)
    quads = rng.integers(0, 256, (256, 4), dtype=np.uint8).tobytes()
    files["bmp_rle8.bmp"] = bmp(bmp_rle(grey, False), W, H, 8, 1, quads)
    files["bmp_rle4.bmp"] = bmp(bmp_rle(grey >> 4, True), W, H, 4, 2, quads[:64])
    files["bmp_24.bmp"] = bmp(padded(row[:, ::-1].tobytes() for row in rgb[::-1]), W, H, 24)
    files["bmp_24_top_down.bmp"] = bmp(padded(row[:, ::-1].tobytes() for row in rgb), W, H, 24, top_down=True)
    bgra = rgba[::-1][..., [2, 1, 0, 3]]
    files["bmp_32.bmp"] = bmp(bgra.tobytes(), W, H, 32)
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    files["bmp_32_alpha.bmp"] = bmp(bgra.tobytes(), W, H, 32, 3, masks=masks, header=56)
    files["bmp_32_v5.bmp"] = bmp(bgra.tobytes(), W, H, 32, 3, masks=masks, header=124)
    abgr = struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00)
    files["bmp_32_masks.bmp"] = bmp(rgba[::-1][..., [3, 2, 1, 0]].tobytes(), W, H, 32, 3, masks=abgr)
    sixteen = picture(channels=1, dtype=np.uint16)[..., 0]
    rows = padded(row.astype("<u2").tobytes() for row in sixteen)
    files["bmp_16.bmp"] = bmp(rows, W, H, 16)
    files["bmp_16_565.bmp"] = bmp(rows, W, H, 16, 3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F))
    return files


def pnm_files():
    grey, rgb = picture(channels=1)[..., 0], picture()
    grey16 = picture(channels=1, dtype=np.uint16)[..., 0]
    bit = (grey < 128).astype(np.uint8)
    text = lambda a: "\n".join(" ".join(map(str, row.reshape(-1).tolist())) for row in a).encode()
    size = f"{W} {H}\n".encode()
    return {
        "pnm_p1.pbm": b"P1\n# a comment\n" + size + text(bit).replace(b" ", b""),
        "pnm_p2.pgm": b"P2\n" + size + b"# and one more\n200\n" + text(np.minimum(grey, 200)),
        "pnm_p2_16.pgm": b"P2\n" + size + b"65535\n" + text(grey16 // 150),
        "pnm_p3.ppm": b"P3 " + size + b"255\n" + text(rgb) + b"\n",
        "pnm_p4.pbm": b"P4\n" + size + np.packbits(bit, axis=1).tobytes(),
        "pnm_p5.pgm": b"P5\n# a comment\n" + size + b"255\n" + grey.tobytes(),
        "pnm_p5_max.pgm": b"P5 " + size + b"100\n" + (grey // 2).tobytes(),  # some past the maximum
        "pnm_p5_12bit.pgm": b"P5 " + size + b"4095\n" + (grey16 >> 9).astype(">u2").tobytes(),
        "pnm_p5_16bit.pgm": b"P5 " + size + b"65535\n" + (grey16 >> 7).astype(">u2").tobytes(),
        "pnm_p6.ppm": b"P6 " + size + b"255\n" + rgb.tobytes(),
        "pnm_p6_16bit.ppm": b"P6 " + size + b"65535\n" + picture(dtype=np.uint16).astype(">u2").tobytes(),
        "pnm_p6_max.ppm": b"P6 " + size + b"1000\n" + (picture(dtype=np.uint16) // 66).astype(">u2").tobytes(),
    }


# TIFF


def tiff(samples, bits, photometric, order="<", planar=False, tile=None, rows_per_strip=5, tags=(), big=False):
    """samples: [height, width, channels], of a numpy type that fits `bits`; uncompressed."""
    height, width, channels = samples.shape
    def encode(block):  # [rows, columns, channels]
        if bits in (16, 32):
            return block.astype(block.dtype.newbyteorder(order)).tobytes()
        return b"".join(pack_bits(row.reshape(-1).astype(np.int64), bits) for row in block)
    blocks = []
    for plane in [samples[..., c:c + 1] for c in range(channels)] if planar else [samples]:
        if tile:
            for y in range(0, height, tile[1]):
                for x in range(0, width, tile[0]):
                    block = np.zeros((tile[1], tile[0], plane.shape[2]), samples.dtype)
                    part = plane[y:y + tile[1], x:x + tile[0]]
                    block[:part.shape[0], :part.shape[1]] = part
                    blocks.append(encode(block))
        else:
            blocks += [encode(plane[y:y + rows_per_strip]) for y in range(0, height, rows_per_strip)]
    at = 16 if big else 8
    offsets = []
    for block in blocks:
        offsets.append(at)
        at += len(block)
    short, long = 3, 4
    entries = [(256, long, [width]), (257, long, [height]), (258, short, [bits] * channels), (259, short, [1]),
               (262, short, [photometric]), (277, short, [channels]), (284, short, [2 if planar else 1])]
    counts = list(map(len, blocks))
    if tile:
        entries += [(322, long, [tile[0]]), (323, long, [tile[1]]), (324, long, offsets), (325, long, counts)]
    else:
        entries += [(273, long, offsets), (278, long, [rows_per_strip]), (279, long, counts)]
    entries = sorted(entries + list(tags))
    inline, entry_bytes = (8, 20) if big else (4, 12)
    at += -at % 8
    extra_at = at + (8 if big else 2) + entry_bytes * len(entries) + (8 if big else 4)
    table, extra = b"", b""
    for tag, kind, values in entries:
        data = struct.pack(order + {short: "H", long: "I"}[kind] * len(values), *values)
        if len(data) > inline:
            table += struct.pack(order + ("HHQQ" if big else "HHII"), tag, kind, len(values), extra_at + len(extra))
            extra += data + b"\0" * (-len(data) % 8)
        else:
            table += struct.pack(order + ("HHQ" if big else "HHI"), tag, kind, len(values)) + data.ljust(inline, b"\0")
    mark = b"II" if order == "<" else b"MM"
    head = mark + (struct.pack(order + "HHHQ", 43, 8, 0, at) if big else struct.pack(order + "HI", 42, at))
    body = (head + b"".join(blocks)).ljust(at, b"\0")
    count = struct.pack(order + ("Q" if big else "H"), len(entries))
    return body + count + table + b"\0" * (8 if big else 4) + extra


def tiff_files():
    short = 3
    extra = lambda *kinds: (338, short, list(kinds))
    kind = lambda n, channels=1: (339, short, [n] * channels)
    grey, rgb, rgba = picture(channels=1), picture(), picture(channels=4)
    grey16, rgb16, rgba16 = (picture(channels=c, dtype=np.uint16) for c in (1, 3, 4))
    small16 = grey16 >> 7
    files = {}
    for order, end in (("<", ""), (">", "_big_endian")):
        files[f"tiff_grey_16{end}.tif"] = tiff(small16, 16, 1, order)
        files[f"tiff_rgb_16{end}.tif"] = tiff(rgb16, 16, 2, order)
        files[f"tiff_rgba_16{end}.tif"] = tiff(rgba16, 16, 2, order, tags=[extra(2)])
        files[f"tiff_signed_16{end}.tif"] = tiff((small16.astype(np.int32) - 150).astype(np.int16), 16, 1, order,
                                                 tags=[kind(2)])
        files[f"tiff_signed_32{end}.tif"] = tiff(small16.astype(np.int32) - 150, 32, 1, order, tags=[kind(2)])
        files[f"tiff_float{end}.tif"] = tiff((small16 * np.float32(0.7) - 30).astype(np.float32), 32, 1, order,
                                             tags=[kind(3)])
    for bits in (1, 2, 4, 8):
        for photometric, name in ((0, "white_is_zero"), (1, "grey")):
            files[f"tiff_{name}_{bits}.tif"] = tiff(grey >> (8 - bits), bits, photometric)
        colours = np.random.default_rng(6).integers(0, 65536, 3 << bits).tolist()
        files[f"tiff_palette_{bits}.tif"] = tiff(grey >> (8 - bits), bits, 3, tags=[(320, short, colours)])
    files["tiff_grey_12.tif"] = tiff_twelve(small16)
    files["tiff_white_is_zero_16.tif"] = tiff(small16, 16, 0)
    files["tiff_grey_alpha.tif"] = tiff(picture(channels=2), 8, 1, tags=[extra(2)])
    files["tiff_grey_extra.tif"] = tiff(picture(channels=2), 8, 1, tags=[extra(0)])
    files["tiff_rgb.tif"] = tiff(rgb, 8, 2)
    files["tiff_rgb_planar.tif"] = tiff(rgb, 8, 2, planar=True)
    files["tiff_rgb_tiles.tif"] = tiff(rgb, 8, 2, tile=(16, 16))
    files["tiff_grey_1_tiles.tif"] = tiff(grey >> 7, 1, 1, tile=(16, 16))
    files["tiff_rgb_tiles_planar.tif"] = tiff(rgb, 8, 2, tile=(16, 16), planar=True)
    files["tiff_big.tif"] = tiff(rgb, 8, 2, big=True)
    files["tiff_rgba_unsaid.tif"] = tiff(rgba, 8, 2)
    files["tiff_rgba.tif"] = tiff(rgba, 8, 2, tags=[extra(2)])
    files["tiff_rgba_premultiplied.tif"] = tiff(rgba, 8, 2, tags=[extra(1)])
    files["tiff_rgb_extra.tif"] = tiff(rgba, 8, 2, tags=[extra(0)])
    files["tiff_cmyk.tif"] = tiff(rgba, 8, 5)
    files["tiff_cmyk_16.tif"] = tiff(rgba16, 16, 5)
    for orientation in (1, 2, 6):
        files[f"tiff_orientation_{orientation}.tif"] = tiff(picture(11, 7), 8, 2, tags=[(274, short, [orientation])])
    image = pil("RGB", 0, 37, 29)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        files[f"tiff_{compression.removeprefix('tiff_')}.tif"] = save(image, "TIFF", compression=compression)
    files["tiff_jpeg_grey.tif"] = save(pil("L"), "TIFF", compression="jpeg")
    files["tiff_lzw_ycbcr.tif"] = save(image.convert("YCbCr"), "TIFF", compression="tiff_lzw")
    files["tiff_group4.tif"] = save(pil("L", 0, 37, 29).convert("1"), "TIFF", compression="group4")
    files["tiff_lzw_predictor.tif"] = save(image, "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    return files


def tiff_twelve(samples):
    """Twelve bits a sample: pairs in three bytes."""
    packed = []
    for row in samples[..., 0]:
        bit = (row[:, None].astype(np.int64) >> np.arange(11, -1, -1)) & 1
        packed.append(np.packbits(bit.reshape(-1).astype(np.uint8)))
    packed = np.stack(packed)[..., None]
    data = tiff(packed, 8, 1, rows_per_strip=len(packed))
    # The same bytes, said to be fewer samples of more bits.
    patch = lambda data, tag, old, new: data.replace(struct.pack("<HHI", tag, *old), struct.pack("<HHI", tag, *new), 1)
    bytes_wide, wide = packed.shape[1], samples.shape[1]
    data = patch(data, 256, (4, 1), (4, 1)).replace(struct.pack("<HHII", 256, 4, 1, bytes_wide),
                                                    struct.pack("<HHII", 256, 4, 1, wide), 1)
    return data.replace(struct.pack("<HHIH", 258, 3, 1, 8), struct.pack("<HHIH", 258, 3, 1, 12), 1)


def all_files():
    return jpeg_files() | png_files() | webp_and_gif_files() | bmp_files() | pnm_files() | tiff_files()
