ddprun_feature(SOURCES replica_check.cpp)
