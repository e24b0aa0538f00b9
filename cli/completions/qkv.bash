# Completions of qkv for bash: the program lists them.
_qkv() {
  local line
  COMPREPLY=()
  while read -r line; do
    case $line in
      :files | :folders)
        compopt -o filenames
        [[ $line == :files ]] && line=-f || line=-d
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$line" -- "$2")
        ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
}
complete -F _qkv qkv
