#!/bin/sh
# Small honest files for a fuzzer to start from: fuzz/seeds.sh NAME FOLDER
set -eu
cd "$(dirname "$0")/.."
case $1 in
  safetensors) files=$(find tests models -name '*.safetensors' -size -64k) ;;
  config) files=$(find tests models \( -name '*config.json' -o -name model.safetensors \) -size -64k) ;;
  image) files=$(find examples tests -size -64k \( -name '*.png' -o -name '*.jpg' -o -name '*.jpeg' -o -name '*.webp' \
    -o -name '*.gif' -o -name '*.bmp' -o -name '*.tif' -o -name '*.tiff' -o -name '*.p[bgnp]m' \)) ;;
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
