# Completion of ddprun for fish, which asks that of bash. It belongs into a folder of $fish_complete_path.
set -g __ddprun_file (dirname (status filename))/../../bash-completion/completions/ddprun
function __ddprun_complete
    set -l words (commandline -opc) (commandline -ct)
    bash $__ddprun_file $words[2..] 2>/dev/null
end
complete -c ddprun -f -a '(__ddprun_complete)'
