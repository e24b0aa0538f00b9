#!/bin/bash
# The completions in real shells: bash; zsh and fish where they are installed. Arguments: the repository, the program.
set -eu
export PATH="${2%/*}:$PATH"
completions=$1/cli/completions
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir models photos
touch model.safetensors 'a photo.png'
failed=0

# expect LINE WORD...: each WORD is a candidate for the end of LINE. `candidates LINE` prints them, one a line.
expect() {
  local line=$1 found word
  found=$(candidates "$line")
  shift
  for word in "$@"; do
    grep -qxF -- "$word" <<< "$found" || {
      echo "$shell: \"$line\": no $word among: ${found//$'\n'/ }"
      failed=1
    }
  done
}
refuse() {
  ! candidates "$1" | grep -qxF -- "$2" || {
    echo "$shell: \"$1\": $2 should not be there"
    failed=1
  }
}

check() {
  expect 'qkv cl' classify
  expect 'qkv qk ' inspect certify truncate
  expect 'qkv qk split --w' --width
  expect 'qkv classify --' --model --top --json
  refuse 'qkv classify --json --' --json
  expect 'qkv classify --set a=b --s' --set
  refuse 'qkv classify --cache ' verify
  refuse 'qkv classify --' --beams
  expect 'qkv classify --dtype ' fp32 bf16 int8 auto
  refuse 'qkv classify --dtype b' fp32
  expect 'qkv attend --query d' dist
  expect 'qkv train . --attention sh' shared shared_kv
  expect 'qkv classify --architecture uni' uni uni2-h
}

shell=bash
# shellcheck source=cli/completions/qkv.bash
. "$completions/qkv.bash"
candidates() {
  # As readline splits it: also before and behind an equals sign.
  read -ra COMP_WORDS <<< "${1//=/ = }"
  local current=${COMP_WORDS[-1]}
  if [[ $1 == *[\ =] ]]; then current=; fi
  if [[ $1 == *' ' ]]; then COMP_WORDS+=(""); fi
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _qkv qkv "$current" 2> /dev/null  # compopt: "not currently executing completion function"
  printf '%s\n' "${COMPREPLY[@]}"
}
[ "$(complete -p qkv)" = 'complete -F _qkv qkv' ] || { echo "bash: not registered"; failed=1; }
check
expect 'qkv classify -m m' model.safetensors models
expect 'qkv classify a' 'a photo.png'
expect 'qkv convert -o ' models photos
refuse 'qkv convert -o ' model.safetensors
refuse 'qkv classify --top ' model.safetensors
expect 'qkv classify --cache=' use verify
expect 'qkv classify --cache=v' verify
expect 'qkv classify --dtype=b' bf16
expect 'qkv verify --tolerance=0.1 ' 'a photo.png'
expect 'qkv verify --set a=b --cache=use ' 'a photo.png'

shell=fish
if command -v fish > /dev/null; then
  candidates() {
    fish --no-config -c "source '$completions/qkv.fish'; complete -C '$1'" | cut -f1
  }
  check
  expect 'qkv classify -m m' model.safetensors models/
  expect 'qkv convert -o ' models/ photos/
  refuse 'qkv convert -o ' model.safetensors
  expect 'qkv classify --cache=' --cache=use --cache=verify
else
  echo "skipped: no fish here"
fi

shell=zsh
if command -v zsh > /dev/null; then
  # zsh completes in a terminal only: functions take the place of those of its system that show candidates.
  candidates() {
    zsh -fc '
      _describe() { local one; for one in "${(@P)4}"; do print -r -- "${one%%:*}"; done }
      _files() { local wanted="*"; [[ $1 == -/ ]] && wanted="*(/)"; print -rl -- ${~wanted} }
      _qkv() { source "$1/_qkv" }
      words=(${(z)2})
      [[ $2 == *" " ]] && words+=("")
      CURRENT=$#words
      _qkv "$1"' zsh "$completions" "$1"
  }
  check
  expect 'qkv classify -m m' model.safetensors models
  expect 'qkv convert -o ' models photos
  refuse 'qkv convert -o ' model.safetensors
  expect 'qkv classify --cache=' --cache=use --cache=verify
else
  echo "skipped: no zsh here"
fi
exit $failed
