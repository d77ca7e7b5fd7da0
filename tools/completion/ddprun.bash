#!/usr/bin/env bash
# Completion of ddprun. bash sources it; run by itself, as zsh and fish do, it prints a line for each word that the last of its
# arguments may become, with its help after a tab. The build puts in what `ddprun complete` prints; the rest stands in the files
# that the line names. They may be anybody's: nothing in them is evaluated.

if [[ ${BASH_SOURCE[0]} != "$0" ]]; then
  __ddprun_file=$(realpath -- "${BASH_SOURCE[0]}")
  _ddprun() {
    local line=${COMP_LINE:0:COMP_POINT} words current
    read -ra words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=("")
    mapfile -t COMPREPLY < <("$BASH" "$__ddprun_file" "${words[@]:1}" 2>/dev/null)
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    COMPREPLY=("${COMPREPLY[@]// /\\ }")
    # bash completes from the last of these on.
    current=${words[-1]}
    [[ $current != *[=:]* ]] || COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*[=:]}"}"}")
    [[ ${#COMPREPLY[@]} -gt 1 || ${COMPREPLY[0]-} != *[=/.] ]] || compopt -o nospace
  }
  complete -F _ddprun ddprun
  return
fi

(($# > 0)) || exit 0
shopt -s nullglob
current=${!#}                                         # the word to complete
command='' option='' target='' overrides=() known=''  # of the words before it; whether anything is known to follow
IFS=: read -ra folders <<<"${DDPRUN_CONFIG_PATH-}"

# What may be typed, by scope; lines of a text and its help:
#   commands, options, arguments, each with a COMMAND; value COMMAND OPTION, where @SCOPE stands for what another has
#   experiments, groups, pages
#   roots; sections, keys                        the keys of the root; as they are written, model. and model=
#   keys SECTION, values SECTION.KEY             SECTION is model:mlp where it chooses a plugin
#   values SECTION, files SECTION                the plugins, and the files of the group
#   experiments/NAME, GROUP/NAME                 what such a file chooses: model:mlp
declare -A data=() chosen=() seen=()
while IFS=$'\t' read -r scope line; do data[$scope]+=$line$'\n'; done <<'END_OF_DATA'
@data@
END_OF_DATA

is_override() { [[ $1 == *=* || $1 == "~"* ]]; }

# offer TEXT [HELP]
offer() {
  [[ $1 && $1 == "$current"* && $1 != *[[:cntrl:]]* && -z ${seen[.$1]-} ]] || return
  seen[.$1]=1
  printf '%s\t%s\n' "$1" "${2-}"
}

# offer_all SCOPE [BEFORE [AFTER]]: each text of the scope, between these.
offer_all() {
  local text help
  [[ -n ${data[$1]-} ]] || return
  known=1
  while IFS=$'\t' read -r text help; do offer "${2-}$text${3-}" "$help"; done <<<"${data[$1]%$'\n'}"
}

# offer_files BEFORE [ENDING]: the folders, and the files with this ending, that may follow BEFORE in the current word.
offer_files() {
  local path
  for path in "${current#"$1"}"*; do
    if [[ -d $path ]]; then offer "$1$path/"; elif [[ $path == *"${2-}" ]]; then offer "$1$path"; fi
  done
}

# offer_configs GROUP BEFORE AFTER: the files of one's own in a group.
offer_configs() {
  local folder path
  for folder in "${folders[@]}"; do
    for path in "$folder/$1"/*.yaml; do path=${path##*/} && offer "$2${path%.yaml}$3"; done
  done
}

# choose SECTION NAME: notes what `model=NAME` chooses, or `defaults: [model/NAME]`; experiments/NAME chooses several.
choose() {
  local section plugin text=${data["$1/$2"]-}
  [[ -n $text || $1 == experiments ]] || chosen[.$1]=$2
  while IFS=:$'\t' read -r section plugin; do [[ -z $section ]] || chosen[.$section]=$plugin; done <<<"$text"
}

# read_choices EXPERIMENT: what it chooses, or the experiment of the run in such a folder, as far as its text says.
read_choices() {
  local folder file line section='' words one
  for folder in "" "${folders[@]/%//}"; do
    for file in "$folder$1" "$folder$1.yaml" "$1/config.yaml"; do [[ ! -f $file ]] || break 2; done
  done
  [[ -f $file ]] || { choose experiments "$(basename -- "$1" .yaml)"; return; }
  while IFS= read -r line; do
    if [[ $line =~ ^([a-z_]+):(.*)$ ]]; then section=${BASH_REMATCH[1]} line=${BASH_REMATCH[2]}; fi
    if [[ $section == defaults ]]; then  # [model/mlp, ...], or lines of "- model/mlp" or "- model: mlp"
      read -ra words <<<"$(tr '[],{}' ' ' <<<"${line//: //}")"
      for one in "${words[@]}"; do [[ $one != */* ]] || choose "${one%%/*}" "${one#*/}"; done
    elif [[ $section && $line =~ ^[\ {]+((plugin|name):)?\ *([A-Za-z0-9_]+)\ *([,}#].*)?$ ]]; then
      [[ -z ${BASH_REMATCH[1]} && $line == *[{}]* ]] || chosen[.$section]=${BASH_REMATCH[3]}
      section=''
    fi
  done < <(head -c 100000 -- "$file")
}

# Notes what the line chooses.
read_line() {
  local word
  [[ -z $target ]] || read_choices "$target"
  for word in "${overrides[@]}"; do
    [[ ! $word =~ ^\+*([a-z_]+)(\.(plugin|name))?=([A-Za-z0-9_]+)$ ]] || choose "${BASH_REMATCH[1]}" "${BASH_REMATCH[4]}"
  done
}

# sections SECTION: prints it, or where its keys are those of plugins it:PLUGIN: of the chosen one, or else of each.
sections() {
  if [[ -n ${data[keys $1]-} ]]; then
    echo "$1"
  elif [[ -n ${data[keys $1:${chosen[.$1]-}]-} ]]; then
    echo "$1:${chosen[.$1]}"
  else
    cut -f 1 <<<"${data[values $1]-}" | sed "s/^/$1:/"
  fi
}

offer_overrides() {
  local sigil=${current%%[!+~]*} word key section one end='='
  word=${current#"$sigil"} key=${word%%=*} section=${key%%.*}
  [[ $sigil != "~"* ]] || end=''
  if [[ $word != *[.=]* ]]; then
    offer_all sections "$sigil"
    if [[ $end ]]; then offer_all keys "$sigil"; else offer_all roots "$sigil"; fi
    return
  fi
  [[ $section =~ ^[a-z_]+$ ]] || return
  read_line
  for one in $(sections "$section"); do
    if [[ $word == *=* ]]; then offer_all "values $one.${key#*.}" "$sigil$key="; else offer_all "keys $one" "$sigil$section." "$end"; fi
  done
  [[ $word == *=* ]] || return
  case $key in "$section" | "$section.plugin" | "$section.name") offer_all "values $section" "$sigil$key=" ;; esac
  if [[ $key == "$section" ]]; then
    offer_all "files $section" "$sigil$key="
    offer_configs "$section" "$sigil$key=" ""
    offer_configs "${section%s}" "$sigil$key=" ""
  fi
  [[ $known ]] || offer_files "$sigil$key="
}

offer_runs() {
  local run
  for run in outputs/*/latest outputs/*/*; do [[ ! -e $run/config.yaml ]] || offer "$run"; done
  offer_files "" /
}

offer_checkpoints() {
  local path
  offer best "the best by the monitored metric"
  offer last "the newest"
  for path in "$target"/checkpoints/step_*; do offer "${path##*/}"; done
}

# offer_argument NAME: what may stand where --help has it.
offer_argument() {
  local kind
  case $1 in
    experiment) offer_all experiments; offer_configs experiments experiments/ .yaml; offer_files "" .yaml ;;
    overrides) offer_overrides ;;
    run) offer_runs ;;
    checkpoint)
      ((${#overrides[@]} > 0)) || is_override "$current" || offer_checkpoints
      [[ $command == " export" ]] || offer_overrides ;;
    folder) offer_files "" ;;
    word) offer_all roots ;;
    page) offer_all pages ;;
    plugin)
      for kind in model dataset optimizer loggers callbacks; do offer_all "values $kind"; done
      offer_files "" .so ;;
  esac
}

offer_values() {
  local text
  while IFS=$'\t' read -r text _; do
    case $text in
      @FILE*) offer_files "" ;;
      @GROUP) offer_all groups ;;
      @NAME) [[ $command != " watch" ]] || offer_all "values loggers" ;;
      @*) ;;
      *) offer "$text" ;;
    esac
  done <<<"$1"
}

offer_arguments() {
  local argument first=1
  while IFS=$'\t' read -r argument _; do
    if [[ $first && -z $target ]] && ! is_override "$current"; then
      offer_argument "$argument"
      return
    fi
    [[ $first && "$command $argument" != " report run" ]] || offer_argument "$argument"
    first=''
  done <<<"${data[arguments$command]-}"
}

for word in "${@:1:$#-1}"; do
  if [[ $word == --quiet || $word == --verbose ]]; then
    continue
  elif [[ $option ]]; then
    option=''
  elif [[ -z $target && -n ${data[options$command $word]-} ]]; then
    command+=" $word"
  else
    command=${command:- run}
    if [[ -n ${data[value$command $word]-} ]]; then option=$word
    elif [[ $word == -* ]]; then continue
    elif [[ -z $target ]] && ! is_override "$word"; then target=$word
    else overrides+=("$word"); fi
  fi
done

if [[ $option ]]; then
  offer_values "${data[value$command $option]}"
elif [[ $current == -* ]]; then
  offer_all "options$command"
  [[ $command ]] || offer_all "options run"
else
  [[ $target ]] || offer_all "commands$command"
  command=${command:- run}
  offer_arguments
fi
exit 0
