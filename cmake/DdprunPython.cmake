# DDPRUN_TEST_PYTHON: the interpreter that tests in Python run with; the one that the torch wheel belongs to.
set(DDPRUN_TEST_PYTHON ${DDPRUN_PYTHON})
if(NOT DDPRUN_TEST_PYTHON AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(DDPRUN_TEST_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
elseif(NOT DDPRUN_TEST_PYTHON)
  find_program(DDPRUN_PYTHON python3 REQUIRED)
  set(DDPRUN_TEST_PYTHON ${DDPRUN_PYTHON})
endif()
