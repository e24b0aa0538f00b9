#!/bin/sh
# Builds the Python environment of the originals (torch, timm, transformers,
# vit-pytorch, open_clip, sentence-transformers) and peers (onnxruntime, openvino) that `make verify`, `make bench`
# and tests/golden/generate.py use. `make test` does not need it.
#
#   tools/reference_env.sh [PATH]     default: ${QKV_VENV:-$HOME/.cache/qkv/venv}
#
# A second run finds the stamp of the same package list and returns at once.
# On success the last line on stdout is the environment's Python.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

TORCH="torch==2.13.0"
# Without their dependencies: the registry's torchvision asks for a CUDA build of torch.
# torchvision_stub.py makes its transforms and models importable beside a CPU torch.
# open_clip asks for it too.
BARE="timm==1.0.31 vit-pytorch==1.26.11 einops==0.8.2 torchvision==0.28.0 open_clip_torch==3.3.0 ftfy==6.3.1 wcwidth==0.9.4 \
sentence-transformers==6.2.0"
# ViT had another layout until 1.11 (cls_token and pos_embedding of three dimensions, a class token
# in the mean); that release lies beside, under the environment's vit-pytorch-1.11/.
OLD_VIT="vit-pytorch==1.11.7"
REST="onnx==1.23.2 onnxruntime==1.31.1 openvino==2026.4.1 nncf==3.4.0 transformers==5.24.0 safetensors==0.8.0 pillow==13.0.0 \
huggingface_hub==2.4.0 pyyaml==6.0.3 sentencepiece==0.2.3 numpy==2.4.6 scipy==1.17.1 opencv-python-headless==5.0.0.93"

if [ "${1:-}" = --install ]; then  # by venv.sh
  python=$2
  pip() { "$python" -m pip --disable-pip-version-check --quiet "$@"; }
  # QKV_TORCH_INDEX=https://download.pytorch.org/whl/cpu picks the smaller CPU build
  # where pip is not already set up to find one; any build serves.
  pip install "$TORCH" ${QKV_TORCH_INDEX:+--index-url "$QKV_TORCH_INDEX"}
  pip install --no-deps $BARE
  pip install $REST
  pip install --no-deps --upgrade --target "$(dirname "$python")/../vit-pytorch-1.11" "$OLD_VIT"
  exit
fi

venv=${1:-${QKV_VENV:-$HOME/.cache/qkv/venv}}
python=$(QKV_VENV_INSTALL="$here/reference_env.sh --install" "$here/venv.sh" "$venv" reference $TORCH $BARE $OLD_VIT $REST)
# The scripts in this repository import the stub before timm; a copy lies beside the packages.
cp "$here/torchvision_stub.py" "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torchvision_stub.py"
echo "$python"
