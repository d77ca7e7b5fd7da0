#!/usr/bin/env bash
# Completion of ddprun. bash and zsh source this file. They and fish have bash run it, with the line up to the cursor: it prints what
# the last word may become, with a space where that is whole. Where it prints nothing, the shell offers files.
if [[ ${ZSH_VERSION-} || ${BASH_SOURCE[0]} != "$0" ]]; then
  # shellcheck disable=SC2296  # zsh's name of this file
  __ddprun_file=${BASH_SOURCE[0]:-${(%):-%x}}
  [[ $__ddprun_file == /* ]] || __ddprun_file=$PWD/$__ddprun_file
  _ddprun() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(bash "$__ddprun_file" "${COMP_LINE:0:$COMP_POINT}" "$2" 2>/dev/null)
    ((${#COMPREPLY[@]} > 0)) || compopt +o nospace 2>/dev/null
  }
  [[ -z ${ZSH_VERSION-} ]] || { autoload -U +X bashcompinit && bashcompinit; }
  complete -o nospace -o default -F _ddprun ddprun
  return
fi

# Words by scope, as `ddprun complete` prints them: "ddprun resume" has a command's options, "ddprun resume <first>" and "<rest>" what
# its arguments may be, ":" and "model:mlp" the overrides of all and of this plugin, "model:" those of any, "experiments/mnist" what it
# chooses. A word that is itself a scope stands for the words of that, and one with a * for files.
declare -A data
while IFS=$'\t' read -r scope word; do data[$scope]+=${data[$word]:-$word$'\n'}; done <<'END_OF_DATA'
@data@
END_OF_DATA

offer() { # WORD: if it begins like the current one, and has nothing that a shell would evaluate
  local word=$1
  [[ $word == *[=./] ]] || word+=' '
  [[ $word != "$current"?* || ($word == -* && $current != -*) || $1 == *[!][A-Za-z0-9_./,:=+-]* ]] || printf '%s\n' "${word#"$skip"}"
}

offer_overrides() { # up to the next . or =; of a section the keys of its plugin, if the line or the file on it says which that is
  local sigil=${current%%[!+]*} section text='' file word rest
  local chosen='(/|=|\.plugin=|\.name=|:[[:space:]{]*(plugin:|name:)?[[:space:]]*)([a-z0-9_]+)'
  section=${current#"$sigil"} section=${section%%[.=]*}
  for file in "$target"{,.yaml,/config.yaml}; do [[ ! -f $file ]] || IFS= read -rd '' -n 20000 text <"$file"; done
  text=$overrides$target$'\n'$text
  [[ ! $text =~ experiments/[a-z0-9_]+ ]] || text+=$'\n'${data[${BASH_REMATCH[0]}]-}
  while [[ $text =~ (^|[^a-z_.])"$section"$chosen && -z ${data[$section:${BASH_REMATCH[4]}]-} ]]; do text=${text#*"${BASH_REMATCH[0]}"}; done
  for word in ${data[:]} ${data[$section:${BASH_REMATCH[4]-}]-}; do
    word=$sigil$word rest=${word:${#current}}
    [[ $current == *=* || $rest != *[.=]* ]] || word=${word%"${rest#*[.=]}"}
    offer "$word"
  done
}

read -ra words <<<"$1"
[[ $1 != *[[:space:]] ]] || words+=('')
((${#words[@]} > 1)) || exit 0
current=${words[-1]} skip=${current%"${2-$current}"} scope=ddprun place='<first>' target='' overrides=''
for word in "${words[@]:1:${#words[@]}-2}"; do
  if [[ $scope == *' -'* ]]; then scope=${scope% -*} # that was the option's value
  elif [[ ${data[$scope $word]-} ]]; then scope+=" $word"
  elif [[ $word == *=* || $word == "~"* ]]; then overrides=$word$'\n'$overrides
  elif [[ $word != -* && -z $target ]]; then target=$word place='<rest>'; fi
done
for word in ${data[$scope]-} ${data[$scope $place]-}; do
  if [[ $word == @overrides ]]; then offer_overrides; else offer "$word"; fi
done
