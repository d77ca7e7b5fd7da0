ddprun_feature(SOURCES max_time.cpp SECTION KEYS trainer.max_time)
