ddprun_feature(SOURCES machine_check.cpp)
