"""The photos of the detector and of the segmenters: coloured ellipses."""
import random

from PIL import Image, ImageDraw

PHOTOS = {12: (90, 60), 7: (60, 140), 30: (64, 64), 4: (300, 50), 101: (33, 47)}  # id: width, height


def make_photo(folder, name):
    """Draws a photo and stores it in folder/photos."""
    rng, (width, height) = random.Random(name), PHOTOS[name]
    photo = Image.new("RGB", (width, height), tuple(rng.randrange(256) for _ in range(3)))
    draw = ImageDraw.Draw(photo)
    for _ in range(6):
        x, y = rng.randrange(width), rng.randrange(height)
        colour = tuple(rng.randrange(256) for _ in range(3))
        draw.ellipse((x, y, x + rng.randrange(4, width), y + rng.randrange(4, height)), fill=colour)
    photo.save(folder / "photos" / f"{name}.png")
    return photo


def save_beside_photos(model, folder):
    """Writes a model of transformers in the place of the folder's files, and makes a folder for photos."""
    (folder / "photos").mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()
    model.save_pretrained(folder)
