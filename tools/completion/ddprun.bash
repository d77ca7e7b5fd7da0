# Completion of ddprun for bash: asks the program. `source` it, or install it as bash-completion/completions/ddprun.
_ddprun() {
  local line=${COMP_LINE:0:COMP_POINT} words current
  read -ra words <<<"$line"
  [[ $line != *[[:space:]] ]] || words+=("")
  mapfile -t COMPREPLY < <("${words[0]/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null | cut -f 1)
  COMPREPLY=("${COMPREPLY[@]// /\\ }")
  # bash completes from the last of these on.
  current=${words[-1]}
  [[ $current != *[=:]* ]] || COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*[=:]}"}"}")
  [[ ${#COMPREPLY[@]} -gt 1 || ${COMPREPLY[0]-} != *[=/.] ]] || compopt -o nospace
}
complete -F _ddprun ddprun
