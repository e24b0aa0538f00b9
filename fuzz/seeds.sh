#!/bin/sh
# Small honest files for a fuzzer to start from: fuzz/seeds.sh NAME FOLDER
set -eu
cd "$(dirname "$0")/.."
case $1 in
  safetensors) files=$(find tests models -name '*.safetensors' -size -64k) ;;
  config) files=$(find tests models \( -name '*config.json' -o -name model.safetensors \) -size -64k) ;;
  image) files=$(find examples tests -size -64k \( -name '*.png' -o -name '*.jpg' -o -name '*.jpeg' -o -name '*.webp' \
    -o -name '*.gif' -o -name '*.bmp' -o -name '*.tif' -o -name '*.tiff' -o -name '*.p[bgnp]m' \)) ;;
  cache)
    printf '\001' > "$2/whole"
    printf '\001\040\001\200' > "$2/changed"
    printf '\001\377\377\0' > "$2/cut"
    files=$(find tests/golden/timm_vit -name model.safetensors)
    ;;
  tokens)
    for positions in none learned sinusoidal rotary; do
      printf '{"architecture": "qkv_sequence", "tokens": "bytes", "vocabulary": 256, "outputs": 256, "length": 8, "width": 16, "depth": 2, "heads": 2, "positions": "%s", "causal": true}\0\1\0\0\0\5\0\0\0' \
        "$positions" > "$2/$positions"
    done
    printf '{"architecture": "qkv_sequence", "vocabulary": 4, "outputs": 2, "length": 3, "width": 4, "depth": 1, "heads": 1, "qkv_attention": "low_rank", "qkv_attention_rank": 2, "mlp_ratio": 2.5, "rotary_base": 100.0, "qkv_bias": false, "qk_norm": true, "layer_scale": true, "activation": "silu", "gated": true, "eps": 1e-5}\0\17\0\0\0' > "$2/options"
    exit
    ;;
  dataset)
    head -c 3073 /dev/zero > "$2/cifar"
    printf '\0\0\010\003\0\0\0\002\0\0\0\001\0\0\0\003abcdef' > "$2/idx"
    printf 'path,label,split\na.png,cat,train\n"b,""c"".png",dog,val\n' > "$2/csv"
    printf 'a.png\tcat\r\nb.png\tdog\r\n' > "$2/tsv"
    tar -cf "$2/tar" --format=ustar -C "$2" idx csv
    gzip -c "$2/csv" > "$2/gz"
    exit
    ;;
  *)
    echo "seeds: no fuzzer is called $1" >&2
    exit 2
    ;;
esac
number=0
for file in $files; do
  number=$((number + 1))
  cp "$file" "$2/seed-$number"
done
