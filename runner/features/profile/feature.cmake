ddprun_feature(SOURCES profiler.cpp SECTION KEYS profile)
