#!/bin/sh
# Small honest files for a fuzzer to start from: fuzz/seeds.sh NAME FOLDER
set -eu
cd "$(dirname "$0")/.."
case $1 in
  safetensors) files=$(find tests models -name '*.safetensors' -size -64k) ;;
  npy) files=$(find tests -name '*.npy' -size -64k) ;;
  torch_file)
    files=$(find tests/io/golden/torch -type f ! -name '*.json' ! -name '*.safetensors')
    # One long text that is named as a global again and again, and as a buffer that is left out.
    { printf '\200\004X\040\116\000\000'; head -c 20000 /dev/zero | tr '\000' a; printf 'qa0'
      yes hahan0 | head -n 2000 | tr -d '\n' | LC_ALL=C tr n '\223'; printf 'N.'; } > "$2/long_globals"
    ;;
  config) files=$(find tests models \( -name '*config.json' -o -name model.safetensors \) -size -64k) ;;
  image) files=$(find examples tests -size -64k \( -name '*.png' -o -name '*.jpg' -o -name '*.jpeg' -o -name '*.webp' \
    -o -name '*.gif' -o -name '*.heic' -o -name '*.avif' -o -name '*.bmp' -o -name '*.tif' -o -name '*.tiff' -o -name '*.j[2p][2k]' -o -name '*.p[bgnp]m' \)) ;;
  features) files=$(find tests/slide/golden/features -name '*.h5') ;;
  slide) files=$(find tests/slide/golden -name '*.tiff' -size -64k) ;;
  mil)
    printf 'lslide,label,patient,split\na.svs,1,p,train\n"b, c",0,q,val\n' > "$2/labels"
    i=0
    for file in tests/mil/golden/*/checkpoint.pt tests/mil/golden/*/model.safetensors; do
      i=$((i + 1))
      { printf h; cat "$file"; } > "$2/head-$i"
    done
    for file in tests/mil/golden/network_*/config.json; do
      i=$((i + 1))
      { printf c; cat "$file"; } > "$2/config-$i"
    done
    exit
    ;;
  dicom)
    # The small files that tests read, out of their archives.
    python3 - "$2" tests/image/golden/dicom.safetensors tests/image/golden/dicom_slides.safetensors << 'END'
import json, pathlib, sys
for archive in sys.argv[2:]:
    data = pathlib.Path(archive).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:begin]).items():
        if name.split("/")[0] in ("file", "slide", "sparse"):
            first, last = entry["data_offsets"]
            pathlib.Path(sys.argv[1], name.replace("/", "_")).write_bytes(data[begin + first:begin + last])
END
    exit
    ;;
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
  openslide)
    # Two levels, the fields as in qkv/slide/read/openslide_protocol.h.
    {
      for text in 4.0.1 aperio 0.25 0.26 40 ffffff; do
        printf '%s' "$text" | dd bs=64 conv=sync status=none
      done
      printf '\002\0\0\0\001\0\0\0'
      printf '\0\020\0\0\0\0\0\0\0\010\0\0\0\0\0\0\0\0\0\0\0\0\360\077'
      printf '\0\010\0\0\0\0\0\0\0\004\0\0\0\0\0\0\0\0\0\0\0\0\0\100'
      head -c 1488 /dev/zero
      printf 'label' | dd bs=256 conv=sync status=none
    } > "$2/two"
    exit
    ;;
  packet)
    # JSON alone; and JSON of 73 bytes with an array behind it.
    printf '{"model": "digits", "edits": [{"kind": "symmetry", "t": -1}]}' > "$2/json"
    printf '\111\0\0\0{"arrays":{"a":{"dtype":"f32","shape":[1,2],"offset":0,"bytes":8}},"b":1}\0\0\0' > "$2/floats"
    printf '12345678' >> "$2/floats"
    exit
    ;;
  pairs)
    printf 'the cats are running\tthe cat ran, 3.5 times\nein Haus\ta house \302\253here\302\273\r\n' > "$2/two"
    printf 'ponies and ties\trelational operators\n\tempty\n' > "$2/faults"
    exit
    ;;
  clean)
    printf '  salt &amp;amp; pepper &lt;3 &#39;caf&eacute;&#x27; &copy 2024 &EACUTE;' > "$2/html"
    printf '\342\200\234\357\274\267\342\200\235\343\200\200\357\254\201ne\007\342\200\250a_b\033[1;31m \302\205' > "$2/fixes"
    printf '\316\237\316\224\316\237\316\243 \304\260' > "$2/lower"
    exit
    ;;
  coco)
    # Annotations, and results behind a zero byte.
    for name in mixed ties id_zero all_crowds no_results; do
      base=tests/app/golden/coco/$name
      { cat "$base.annotations.json"; printf '\000'; cat "$base.results.json"; } > "$2/$name"
    done
    printf '{"images":[{"id":1,"file_name":"a"}],"categories":[{"id":2,"name":"b"}],"annotations":[' > "$2/small"
    printf '{"id":3,"image_id":1,"category_id":2,"bbox":[0,0,9,9],"area":81,"iscrowd":0}]}\000' >> "$2/small"
    printf '[{"image_id":1,"category_id":2,"bbox":[0,1,9,8],"score":0.5}]' >> "$2/small"
    exit
    ;;
  geojson)
    # QuPath's, with a hole, a detection and a line; TRIDENT's; a MultiPolygon; areas that cross and overlap; gzipped.
    printf '{"type":"FeatureCollection","features":[{"type":"Feature","id":"5b9e","geometry":{"type":"Polygon","coordinates":[[[1,1],[4000,1],[4000.5,2900],[1,1]],[[2000,500],[2500,500],[2500,700],[2000,500]]]},"properties":{"objectType":"annotation","isLocked":true,"classification":{"name":"Tumor","color":[200,0,0]}}},{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,1],[2,1],[2,2],[1,1]]]},"properties":{"objectType":"detection","measurements":{"a":1}}},{"type":"Feature","geometry":{"type":"LineString","coordinates":[[1,1],[2,2]]},"properties":{"objectType":"annotation"}}]}' > "$2/qupath"
    printf '{"type":"FeatureCollection","name":"a","crs":{"type":"name","properties":{"name":"urn:ogc:def:crs:EPSG::3857"}},"features":[{"type":"Feature","properties":{"tissue_id":0},"geometry":{"type":"Polygon","coordinates":[[[0.0,0.0],[0.0,2000.0],[3000.0,2000.0],[0.0,0.0]]]}}]}' > "$2/trident"
    printf '[{"type":"Feature","geometry":{"type":"MultiPolygon","coordinates":[[[[0,0],[1024,0],[1024,512]]],[[[100,100],[900,100],[900,400]],[[200,150],[300,150],[300,200]]]]},"properties":null}]' > "$2/multi"
    printf '{"type":"Polygon","coordinates":[[[0,0],[5000,3000],[5000,0],[0,3000],[2500,-100],[-1e8,1e9],[77.7,1500]]]}' > "$2/crossing"
    for name in qupath multi; do gzip -nc "$2/$name" > "$2/$name.gz"; done
    exit
    ;;
  pattern)
    # The pattern, and a text behind a zero byte.
    printf '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}&&[^\\p{Han}]]+(?i:'"'"'ll|'"'"'d)?|\\p{N}{1,3}|\\s+(?!\\S)\0I'"'"'ll see' > "$2/classes"
    printf '(?<x>a|b)(c)?\\k<x>|(?<=a|bc)d|(?<!\\w)(?m:.)|^(?x) a b # c\n|\\b[[:^alpha:]-]\0aca bcd' > "$2/groups"
    printf 'a{,3}?|b{2}+c*+(?>d+)|(?i)k\\x{41}\\u0042[]\\h\\W_-]\\R$\\z\0aaa bbbb' > "$2/repeats"
    printf '(a|b)\\1|\\p{^Greek}\\G\\P{Lu}\\Ka[a-z&&[^b-d]&&[:lower:]]\0aa ba' > "$2/references"
    exit
    ;;
  tokenizer)
    # The kind, the file, and a text behind a zero byte.
    for name in clip gpt2 llama3 siglip_json gemma_json steps more_steps bert bert_cased qwen2 llama_json; do
      { printf '\000'; cat "tests/text/golden/$name/tokenizer.json"; printf '\000a photo of a cat'; } > "$2/$name"
    done
    for name in siglip_model gemma llama2 unigram_bytes suffix; do
      { printf '\001'; cat "tests/text/golden/$name/"*.model; printf '\000a photo of a cat'; } > "$2/$name"
    done
    small='{"a":0,"b":1,"ab":2,"</w>":3,"<|startoftext|>":4,"<|endoftext|>":5,"a</w>":6}'
    printf '\002%s\n#version: 0.2\na b\n' "$small" > "$2/vocab"
    { printf '\003'; cat tests/text/golden/bert_options/tokenizer_config.json; printf '\n'
      cat tests/text/golden/bert_options/vocab.txt; printf '\000a photo of a cat'; } > "$2/vocab_txt"
    printf '\003{"do_lower_case":false,"strip_accents":true}\n[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nab\n' > "$2/small_vocab_txt"
    { printf '\004'; cat tests/text/golden/marian/vocab.json; printf '\n'; cat tests/text/golden/marian/source.spm
      printf '\000>>ita<< a cat'; } > "$2/marian"
    printf '\005a photo of a cat\na photo of two cats\n\000a cat' > "$2/lines"
    printf '\000{"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"a":1,"##b":2}},"normalizer":{"type":' \
      > "$2/word_piece"
    printf '"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"}}\000Ab. a' \
      >> "$2/word_piece"
    printf '\000{"model":{"type":"BPE","vocab":%s,"merges":["a b"]},"pre_tokenizer":{"type":"Whitespace"}}\000ab a' \
      "$small" > "$2/small"
    exit
    ;;
  dataset)
    head -c 3073 /dev/zero > "$2/cifar"
    printf '\0\0\010\003\0\0\0\002\0\0\0\001\0\0\0\003abcdef' > "$2/idx"
    printf 'path,label,split\na.png,cat,train\n"b,""c"".png",dog,val\n' > "$2/csv"
    printf 'a.png\tcat\r\nb.png\tdog\r\n' > "$2/tsv"
    exit
    ;;
  archive)
    printf 'path,label\na.png,cat\n' > "$2/csv"
    head -c 3073 /dev/zero > "$2/data_batch_1.bin"
    tar -cf "$2/tar" --format=ustar -C "$2" csv data_batch_1.bin
    for file in csv tar data_batch_1.bin; do gzip -c "$2/$file" > "$2/$file.gz"; done
    cat "$2/csv.gz" "$2/csv.gz" > "$2/two.gz"
    exit
    ;;
  run)
    sum='[105.5,96,27]'
    printf '{"step":12,"since_log":%s,"since_evaluation":%s,"evaluations":3,"best_epoch":1,"without_better":2,' \
      "$sum" "$sum" > "$2/state"
    printf '"best_top1":0.25,"best_loss":1.5,"data":18272895352426619569,"evaluation_due":false}' >> "$2/state"
    printf '{"event":"train","step":20,"epoch":1,"loss":1.5}\n{"event":"evaluation","step":20,"top1":null}\n' > "$2/log"
    printf '# qkv train: every key, as it was resolved\npreset: "vit-digits"\nlr: 1e-3\nmean: [0.1, 0.2, 0.3]\n' \
      > "$2/yaml"
    printf '{"preset": "seq-text", "lr": 1e-3, "steps": 100}' > "$2/json"
    run='{"data":"d","arm":"a","seed":0,"top1":0.5,"loss":1,"train_top1":0.5,"steps":2,"parameters":3,"flops":4'
    run="$run"',"symmetry":null,"effective_rank":2,"rank99":3}'
    printf '%s' "$run" > "$2/result"
    printf '{"title":"t","facts":[["a","b"]],"arms":["a"],"unit":"images","planned":1,"runs":[%s],' "$run" \
      > "$2/results"
    printf '"speeds":{"a":{"training":1,"inference":2}}}' >> "$2/results"
    # A cache of one image of one pixel: header, pixel, record, footer.
    printf 'qkv images 1\n\0\0\0aaaaaaaax' > "$2/images"
    printf '\030\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0' >> "$2/images"
    printf '\001\0\0\0\0\0\0\0\031\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0aaaaaaaa' >> "$2/images"
    exit
    ;;
  request)
    # The kind, and what is read.
    printf '\000/v2/models/a%%2Fb/infer?x=%%41&y&z=' > "$2/target"
    printf '\000http://a:80/b?x=1' > "$2/address"
    printf '\001multipart/form-data; boundary="b"\n--b\r\nContent-Disposition: form-data; name="entries"\r\n\r\n{"clip":' \
      > "$2/form"
    printf '{"visual":{"modelName":"m"}}}\r\n--b\r\nContent-Disposition: form-data; name=image; filename="a"\r\n\r\nx\r\n--b--' \
      >> "$2/form"
    printf '\002{"top":3,"threshold":0.5,"rollout":true,"prompts":["a","b"],"images":["data:image/png;base64,eHk="]}' > "$2/json"
    printf '\003--b\r\nContent-Disposition: form-data; name="top"\r\n\r\n3\r\n--b--\r\n' > "$2/fields"
    printf '\004\377\377{"id":"a","inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[[1,2.5]]},' > "$2/tensors"
    printf '{"name":"y","datatype":"BYTES","shape":[1],"data":["text"]}],"outputs":[{"name":"o","parameters":' >> "$2/tensors"
    printf '{"classification":2,"binary_data":true}}],"parameters":{"binary_data_output":false}}' >> "$2/tensors"
    printf '\004\142\000{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6  }}]}    ' \
      > "$2/binary"
    printf '\002\000\000\000ab' >> "$2/binary"
    printf '\005{"clip":{"textual":{"modelName":"m","options":{"language":"de"}}}}' > "$2/entries"
    printf '\006data:image/png;base64,aGFs\r\nbG8-_w==' > "$2/base64"
    exit
    ;;
  server_config)
    cp tests/server/models.yaml "$2/models"
    printf 'address: 0.0.0.0\nport: 0\nhosts: [a]\norigins: []\nexplorer: false\nlog: true\nmemory: 8 GB\nthreads: 2\nlimits:\n' > "$2/all"
    printf '  {body: 1MB, bodies: 2MB, connections: 3, pixels: 4, active: 5, batch: 6, delay_ms: 7.5, request_seconds: 8,\n' >> "$2/all"
    printf '   drain_seconds: 9, header_seconds: 1, idle_seconds: 2, transfer_seconds: 3}\nmodels:\n' >> "$2/all"
    printf -- '- {id: a, path: b, dtype: int8, size: 8x9, pool: cls, labels: c, revision: "2", at_start: true}\n' >> "$2/all"
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
