# Completions of qkv for bash.
_qkv() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local model="-m --model --threads --architecture --set --mean --std --crop-pct --heads --labels --state-dict --max-memory --strict" run="--size --dtype --cache"
  local reading="--ignore-exif --window --max-pixels -q --quiet"
  local images="--batch $reading"
  local types="fp32 bf16 int8 auto" pools="model cls mean cls+mean tokens" attentions="all"
  if [[ $command == train || $command == ablate ]]; then
    pools="token avg max avgmax map"
    attentions="separate shared unified shared_kv merged low_rank symmetric gaussian positional"
  fi
  [[ $command != convert && $command != qk ]] || types="fp32 fp16 bf16"
  [[ $command != qk || ${COMP_WORDS[2]} != plan ]] || types="fp32 fp64"
  [[ $command != qk || ${COMP_WORDS[2]} != inspect ]] || types="fp32 bf16 int8 auto"
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "classify evaluate embed search detect segment attend info run verify convert bench qk train ablate generate translate summarize caption tokenize serve explore -h --help --version" -- "$cur")
    return
  fi
  if [[ $command == qk ]]; then
    if [[ $COMP_CWORD -eq 2 ]]; then
      mapfile -t COMPREPLY < <(compgen -W "inspect claims certify merge split truncate plan -h --help" -- "$cur")
      return
    fi
    command="qk ${COMP_WORDS[2]}"
  fi
  case $prev in
    --vary) mapfile -t COMPREPLY < <(compgen -W "attention cross-attention both" -- "$cur") && return ;;
    --cross-weights) mapfile -t COMPREPLY < <(compgen -W "hard uniform gaussian= softmax=" -- "$cur") && return ;;
    --equal) mapfile -t COMPREPLY < <(compgen -W "steps parameters flops" -- "$cur") && return ;;
    --dtype) mapfile -t COMPREPLY < <(compgen -W "$types" -- "$cur") && return ;;
    --work) mapfile -t COMPREPLY < <(compgen -W "embed prefill decode decode-batch greedy beams" -- "$cur") && return ;;
    --cached) mapfile -t COMPREPLY < <(compgen -W "nothing tokens keys latent" -- "$cur") && return ;;
    --with) mapfile -t COMPREPLY < <(compgen -W "rope rms-norm sink soft-cap added-keys not-softmax dropout" -- "$cur") && return ;;
    --read) mapfile -t COMPREPLY < <(compgen -W "outputs scores" -- "$cur") && return ;;
    --split) mapfile -t COMPREPLY < <(compgen -W "train val test all" -- "$cur") && return ;;
    --pool) mapfile -t COMPREPLY < <(compgen -W "$pools" -- "$cur") && return ;;
    --layout) mapfile -t COMPREPLY < <(compgen -W "timm hf vit-pytorch" -- "$cur") && return ;;
    --attention | --hidden) mapfile -t COMPREPLY < <(compgen -W "$attentions" -- "$cur") && return ;;
    --layer) mapfile -t COMPREPLY < <(compgen -W "all" -- "$cur") && return ;;
    --head) mapfile -t COMPREPLY < <(compgen -W "mean max min all" -- "$cur") && return ;;
    --query) mapfile -t COMPREPLY < <(compgen -W "cls dist reg0 det0 mean all" -- "$cur") && return ;;
    --part) mapfile -t COMPREPLY < <(compgen -W "encoder decoder cross" -- "$cur") && return ;;
    --upsampling) mapfile -t COMPREPLY < <(compgen -W "nearest bilinear bicubic" -- "$cur") && return ;;
    --preset) mapfile -t COMPREPLY < <(compgen -W "vit-digits vit-cifar vit-tiny vit-small fine-tune seq-task seq-text seq-pairs" -- "$cur") && return ;;
    --positions) mapfile -t COMPREPLY < <(compgen -W "none learned sinusoidal rotary" -- "$cur") && return ;;
    --init) mapfile -t COMPREPLY < <(compgen -W "trunc-normal mimetic" -- "$cur") && return ;;
    --mlp) mapfile -t COMPREPLY < <(compgen -W "plain swiglu" -- "$cur") && return ;;
    --activation) mapfile -t COMPREPLY < <(compgen -W "gelu gelu_tanh quick_gelu relu silu tanh" -- "$cur") && return ;;
    --interpolation) mapfile -t COMPREPLY < <(compgen -W "nearest box bilinear hamming bicubic lanczos" -- "$cur") && return ;;
    --crop-mode) mapfile -t COMPREPLY < <(compgen -W "center squash border" -- "$cur") && return ;;
    --background) mapfile -t COMPREPLY < <(compgen -W "any dark" -- "$cur") && return ;;
    --crop) mapfile -t COMPREPLY < <(compgen -W "resized padded none" -- "$cur") && return ;;
    --norm) mapfile -t COMPREPLY < <(compgen -W "layer rms" -- "$cur") && return ;;
    --norm-place) mapfile -t COMPREPLY < <(compgen -W "before after" -- "$cur") && return ;;
    --cross-attention) mapfile -t COMPREPLY < <(compgen -W "separate shared unified shared_kv merged low_rank symmetric" -- "$cur") && return ;;
    --opt) mapfile -t COMPREPLY < <(compgen -W "adamw sgd" -- "$cur") && return ;;
    --sched) mapfile -t COMPREPLY < <(compgen -W "cosine inverse-sqrt one-cycle constant" -- "$cur") && return ;;
    --precision) mapfile -t COMPREPLY < <(compgen -W "fp32 bf16" -- "$cur") && return ;;
    --size | --threads | --max-memory | --batch | --window | --max-pixels | --top | --tolerance | --seconds) return ;;
    --threshold | --discard | --start | --opacity | --side | --rank | --sample | --only | --seed) return ;;
    --architecture) mapfile -t COMPREPLY < <(compgen -W "uni uni2-h virchow virchow2 h-optimus-0 h-optimus-1 h0-mini gigapath phikon phikon-v2 midnight rad-dino" -- "$cur") && return ;;
    --set | --prompts | --template) return ;;
    --width | --tokens | --queries | --heads | --state-dict | --head-width | --value-width | --latent) return ;;
    --image-size | --patch-size | --channels | --depth | --mlp-ratio | --registers | --layer-scale | --mean | --std) return ;;
    --crop-pct | --val-fraction | --scale | --pad | --flip | --randaugment | --magnitude | --jitter | --erase) return ;;
    --mixup | --cutmix | --lr | --min-lr | --epochs | --steps | --minutes | --warmup-epochs | --accumulate | --weight-decay) return ;;
    --beta1 | --beta2 | --momentum | --clip-grad | --smoothing | --dropout | --attention-dropout | --drop-path | --ema) return ;;
    --prompt | --prefix | --temperature | --top-k | --top-p | --min-p | --beams | --length-penalty | --length | --vocabulary | --rotary-base | --key-heads | --decoder-depth | --valid-lines) return ;;
    --patience | --eval-epochs | --eval-steps | --save-steps | --log-steps) return ;;
  esac
  if [[ $cur == -* ]]; then
    local options writing="--tokens --min-tokens --beams --length-penalty --no-repeat-ngram --repetition-penalty --temperature --top-k --top-p --min-p --seed"
    case $command in
      classify) options="$model $run $images --prompts --template --top -o --output --json --logits" ;;
      evaluate) options="$model $run $images --split --beams --stem --lines --cross-weights --json -o --output --predictions --report" ;;
      embed) options="$model $run $images --pool --text -o --output" ;;
      search) options="$model $run $reading --pool --top --min --pairs --exclude-self --json --sheet" ;;
      detect) options="$model $run $reading -o --output --json --coco --threshold" ;;
      segment) options="$model $run $reading -o --output --ids --task --json --coco --threshold --mask-threshold --overlap --stuff" ;;
      attend) options="$model $run $reading -o --output --layer --head --query --rollout --discard --start --upsampling --opacity --side --cross --part --target --prefix --beams --tokens" ;;
      info) options="$model --json --settings" ;;
      run) options="$model $run $images --input -o --output --attention --hidden" ;;
      verify) options="$model $run --tolerance --json" ;;
      convert) options="$model -o --output --layout --dtype --force" ;;
      bench) options="$model $run --batch --tokens --work --seconds --without --json --layer --attention --train --stdin" ;;
      train | ablate)
        [[ $command == ablate ]] && options="--arms --seeds --equal --vary --processes" || options="--resume -m --model --seed --attention --rank"
        options+=" -o --output --config -q --quiet --preset --init --val-fraction --image-size --patch-size --channels --width --depth --heads --mlp-ratio --mlp --activation --qkv-bias --no-qkv-bias --qk-norm --no-qk-norm --class-token --no-class-token --registers --layer-scale --pool --mean --std --interpolation --crop-pct --crop-mode --background --cache --length --vocabulary --positions --rotary-base --causal --no-causal --norm --norm-place --head-width --key-heads --window --sinks --no-sinks --tokenizer --valid --decoder-depth --cross-attention --valid-lines --crop --scale --pad --flip --randaugment --magnitude --jitter --erase --mixup --cutmix --opt --lr --min-lr --sched --epochs --steps --minutes --warmup-epochs --batch --accumulate --weight-decay --beta1 --beta2 --momentum --clip-grad --smoothing --dropout --attention-dropout --drop-path --ema --patience --precision --checkpointing --no-checkpointing --threads --eval-epochs --eval-steps --save-steps --log-steps --tensorboard --no-tensorboard --maps" ;;
      generate) options="-m --model --threads --max-memory --strict --dtype --cache --prompt --json $writing" ;;
      translate | summarize)
        options="-m --model --threads --max-memory --strict --dtype --cache --prefix --cross-weights --cut --batch -o --output --json -q --quiet $writing"
        [[ $command == summarize ]] && options+=" --lines"
        ;;
      caption) options="-m --model --threads --max-memory --strict $run $images --json -o --output $writing" ;;
      tokenize) options="-m --model --json --null --max-length --pad --plain --target --time --threads" ;;
      explore) options="-m --model --port --threads --no-browser --max-memory" ;;
      serve) options="-m --model --config --address --port --dtype --threads --api-key-file -q --quiet --max-memory --strict" ;;
      "qk inspect") options="$model $run $images --images --json --report -o --output" ;;
      "qk certify") options="$model --rank --with --json" ;;
      "qk merge") options="$model -o --output --dtype --force" ;;
      "qk split") options="$model -o --output --dtype --force --width" ;;
      "qk truncate")
        options="$model -o --output --dtype --force --rank --data-optimal --images --sample --json -q --quiet" ;;
      "qk plan") options="$model --size --dtype --width --tokens --queries --head-width --value-width --batch --cached --latent --read --measure --seconds --json --grid --map --stdin" ;;
      "qk claims") options="$model --ablation --translator --pairs --lines --only --seed --quick --json --verbose --report -q --quiet" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options -h --help" -- "$cur")
    return
  fi
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
complete -F _qkv qkv
