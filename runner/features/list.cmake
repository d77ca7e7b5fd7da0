# What trainings do besides the loop of train/. Each feature is a folder with a make_<name>(), which returns null where an experiment
# does not use it, and a feature.cmake that calls ddprun_feature(). They see events in the order of this list. A build without some:
#
#   cmake -D "DDPRUN_FEATURES=work;record" ...      none: -D DDPRUN_FEATURES=none
set(features
  freezing       # pretrained.freeze, unfreeze: before all others, which find the parameters that train
  memory         # trainer.micro_batch: auto, trainer.recompute, advice where memory runs out
  late_weights   # trainer.shard_optimizer: does the model wait for its weights?
  same_machines  # trainer.shards: do all machines compute the same bits?
  histograms
  profile
  record         # record.steps, `ddprun replay`, `ddprun diff`: before work, since one of them hears a step's operators
  work           # tokens, FLOPs, MFU
  verify_shards
  replicas       # do the ranks hold the same network? digests.jsonl
  range_test     # `ddprun find-lr`
  system_rows
  max_time
  callbacks      # last: what they see is what the others have made of the step
)

# ddprun_feature(SOURCES <file>... [SECTION] [COMMANDS <name>... [COMMAND_SOURCES <file>...]] [KEYS <key>|<key>=<value>...])
# SECTION: it declares a section of the experiment file, or keys in one of the core's: section_of_<name>() in its <name>_section.cpp
# (config/feature_section.h). COMMANDS of the program that are its own: find_lr() in find_lr_command.cpp for find-lr; COMMAND_SOURCES is
# what else they are made of. They may include what is above the worker, cli/ too, and SOURCES may not. KEYS are those of an experiment
# that ask for the feature: they and the commands are refused in a build without it. <name>.md, if there is one, is its page of the docs.
function(ddprun_feature)
  cmake_parse_arguments(PARSE_ARGV 0 arg "SECTION" "" "SOURCES;COMMANDS;COMMAND_SOURCES;KEYS")
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
  set(sources ${arg_SOURCES} PARENT_SCOPE)
  cmake_path(GET CMAKE_CURRENT_LIST_DIR FILENAME name)
  set(section "")
  if(arg_SECTION)
    set(section ${CMAKE_CURRENT_LIST_DIR}/${name}_section.cpp)
  endif()
  set(section ${section} PARENT_SCOPE)
  set(page ${CMAKE_CURRENT_LIST_DIR}/${name}.md)
  if(NOT EXISTS ${page})
    set(page "")
  endif()
  set(page ${page} PARENT_SCOPE)
  string(REPLACE "-" "_" functions "${arg_COMMANDS}")
  list(TRANSFORM functions APPEND _command.cpp OUTPUT_VARIABLE command_sources)
  list(APPEND command_sources ${arg_COMMAND_SOURCES})
  list(TRANSFORM command_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
  set(commands ${arg_COMMANDS} PARENT_SCOPE)
  set(command_sources ${command_sources} PARENT_SCOPE)
  set(keys ${arg_KEYS} PARENT_SCOPE)
endfunction()

# Generates features.cpp, sections.cpp and commands.cpp in ${folder} for the features of the list that are given.
function(ddprun_generate_features folder)
  set(declarations "")
  set(calls "")
  set(section_declarations "")
  set(sections "")
  set(absent "")
  set(command_declarations "")
  set(commands "")
  foreach(feature ${features})
    foreach(command ${commands_of_${feature}})
      set(function nullptr)
      if(feature IN_LIST ARGN)
        string(REPLACE "-" "_" function ${command})
        string(APPEND command_declarations "int ${function}(const Arguments& arguments);\n")
      endif()
      string(APPEND commands "    {\"${command}\", ${function}, \"${feature}\"},\n")
    endforeach()
    if(feature IN_LIST ARGN)
      string(APPEND declarations "std::unique_ptr<Feature> make_${feature}(const Context& context, const TrainPlan& plan);\n")
      string(APPEND calls "  features.add(make_${feature}(context, plan));\n")
      if(section_of_${feature})
        string(APPEND section_declarations "FeatureSection section_of_${feature}();\n")
        string(APPEND sections "    section_of_${feature}(),\n")
      endif()
      continue()
    endif()
    foreach(key ${keys_of_${feature}})
      string(REGEX MATCH "^([^=]+)=?(.*)$" unused ${key})
      string(APPEND absent "    {\"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\", \"${feature}\"},\n")
    endforeach()
  endforeach()
  foreach(file features.cpp sections.cpp commands.cpp)
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${file}.in ${folder}/${file} @ONLY)
  endforeach()
endfunction()

foreach(feature ${features})
  include(${CMAKE_CURRENT_LIST_DIR}/${feature}/feature.cmake)
  set(keys_of_${feature} ${keys})
  set(sources_of_${feature} ${sources})
  set(section_of_${feature} ${section})
  set(page_of_${feature} ${page})
  set(commands_of_${feature} ${commands})
  set(command_sources_of_${feature} ${command_sources})
endforeach()
