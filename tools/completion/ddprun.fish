# Completion of ddprun for fish: asks the program. It belongs into a folder of $fish_complete_path.
function __ddprun_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete $words[2..] 2>/dev/null
end
complete -c ddprun -f -a '(__ddprun_complete)'
