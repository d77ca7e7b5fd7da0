# Completion of ddprun for fish, which asks that of bash. It belongs into a folder of $fish_complete_path.
set -g __ddprun_file (dirname (status filename))/../../bash-completion/completions/ddprun
complete -c ddprun -a '(bash $__ddprun_file (commandline -cp) 2>/dev/null | string trim --right)'
