"""Reads the hand-drawn digits with the model inside the program: what `make demo` runs.

    python3 tools/demo.py PROGRAM FOLDER

The first letter of a file's name is the digit that it shows. Exit 1 when one is misread.
"""
import json
import subprocess
import sys
from pathlib import Path

NEXT = """
Try next:
  {qkv} classify --top 3 examples/digits/7-white.png   the runners-up
  {qkv} info                                           what this model is
  {qkv} classify -m FOLDER photo.jpg                   your own ViT: timm, Hugging Face or vit-pytorch, safetensors
  {qkv} embed -m FOLDER -o embeddings.npy photos/      one vector a picture
  {qkv} --help                                         everything else
"""


def main(program, folder):
    command = [program, "classify", "--json", folder]
    print("$", *command)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return done.returncode
    results = sorted(map(json.loads, done.stdout.splitlines()), key=lambda result: result["path"])
    expected = sorted(Path(folder).glob("*.png"))
    right = 0
    print(f"\n  {'picture':14} drawn  read as  score")
    for result in results:
        name, best = Path(result["path"]).name, result["top"][0]
        ok = best["label"] == name[0]
        right += ok
        print(f"  {name:14} {name[0]:>5}  {best['label']:>7}  {best['score']:.3f}{'' if ok else '   wrong'}")
    print(f"\n{right} of {len(expected)} right.")
    print(NEXT.format(qkv=program), end="")
    return 0 if right == len(expected) else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
