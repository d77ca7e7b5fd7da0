ddprun_feature(SOURCES late_weights.cpp)
