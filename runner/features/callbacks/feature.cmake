ddprun_feature(SOURCES callbacks.cpp KEYS callbacks)
