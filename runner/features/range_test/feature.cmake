ddprun_feature(SOURCES range_test.cpp COMMANDS find-lr KEYS schedule.name=range_test)
