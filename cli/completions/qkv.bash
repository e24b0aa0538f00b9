# Completions of qkv for bash.
_qkv() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local model="-m --model --threads" run="--size --dtype --cache"
  local reading="--ignore-exif --window --max-pixels -q --quiet"
  local images="--batch $reading"
  local types="fp32 bf16 int8 auto"
  [[ $command != convert && $command != qk ]] || types="fp32 fp16 bf16"
  [[ $command != qk || ${COMP_WORDS[2]} != plan ]] || types="fp32 fp64"
  [[ $command != qk || ${COMP_WORDS[2]} != inspect ]] || types="fp32 bf16 int8 auto"
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "classify evaluate embed attend info run verify convert bench qk -h --help --version" -- "$cur")
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
    --dtype) mapfile -t COMPREPLY < <(compgen -W "$types" -- "$cur") && return ;;
    --cached) mapfile -t COMPREPLY < <(compgen -W "nothing tokens keys latent" -- "$cur") && return ;;
    --with) mapfile -t COMPREPLY < <(compgen -W "rope rms-norm sink soft-cap added-keys not-softmax dropout" -- "$cur") && return ;;
    --read) mapfile -t COMPREPLY < <(compgen -W "outputs scores" -- "$cur") && return ;;
    --split) mapfile -t COMPREPLY < <(compgen -W "train val test all" -- "$cur") && return ;;
    --pool) mapfile -t COMPREPLY < <(compgen -W "model cls mean tokens" -- "$cur") && return ;;
    --layout) mapfile -t COMPREPLY < <(compgen -W "timm hf vit-pytorch" -- "$cur") && return ;;
    --attention | --hidden) mapfile -t COMPREPLY < <(compgen -W "all" -- "$cur") && return ;;
    --layer) mapfile -t COMPREPLY < <(compgen -W "all" -- "$cur") && return ;;
    --head) mapfile -t COMPREPLY < <(compgen -W "mean max min all" -- "$cur") && return ;;
    --query) mapfile -t COMPREPLY < <(compgen -W "cls dist reg0 mean all" -- "$cur") && return ;;
    --upsampling) mapfile -t COMPREPLY < <(compgen -W "nearest bilinear bicubic" -- "$cur") && return ;;
    --size | --threads | --batch | --window | --max-pixels | --top | --tolerance | --seconds) return ;;
    --discard | --start | --opacity | --side | --rank | --sample | --only | --seed) return ;;
    --width | --tokens | --queries | --heads | --head-width | --value-width | --latent) return ;;
  esac
  if [[ $cur == -* ]]; then
    local options
    case $command in
      classify) options="$model $run $images --top --json --logits" ;;
      evaluate) options="$model $run $images --split --json -o --output --report" ;;
      embed) options="$model $run $images --pool -o --output" ;;
      attend) options="$model $run $reading -o --output --layer --head --query --rollout --discard --start --upsampling --opacity --side" ;;
      info) options="$model --json" ;;
      run) options="$model $run $images --input -o --output --attention --hidden" ;;
      verify) options="$model $run --tolerance --json" ;;
      convert) options="$model -o --output --layout --dtype --force" ;;
      bench) options="$model $run --batch --seconds --without --json --layer --attention --train --stdin" ;;
      "qk inspect") options="$model $run $images --images --json --report -o --output" ;;
      "qk certify") options="$model --rank --with --json" ;;
      "qk merge") options="$model -o --output --dtype --force" ;;
      "qk split") options="$model -o --output --dtype --force --width" ;;
      "qk truncate")
        options="$model -o --output --dtype --force --rank --data-optimal --images --sample --json -q --quiet" ;;
      "qk plan") options="$model --size --dtype --width --tokens --queries --heads --head-width --value-width --batch --cached --latent --read --measure --seconds --json --grid --map --stdin" ;;
      "qk claims") options="$model --only --seed --quick --json --report -q --quiet" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options -h --help" -- "$cur")
    return
  fi
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
complete -F _qkv qkv
