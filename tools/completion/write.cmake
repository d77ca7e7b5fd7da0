# Writes the completion TO a file: ddprun.bash with what PROGRAM says of itself.
execute_process(COMMAND ${PROGRAM} complete --with-schema OUTPUT_VARIABLE data OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/ddprun.bash ${TO} @ONLY)
file(TOUCH ${TO})  # it is left alone where nothing has changed
