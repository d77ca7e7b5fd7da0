ddprun_feature(SOURCES step_record.cpp step_recorder.cpp SECTION
  COMMANDS diff replay
  COMMAND_SOURCES parting.cpp record_difference.cpp record_file.cpp run_facts.cpp step_page.cpp step_view.cpp steps_again.cpp
  KEYS record)
