ddprun_feature(SOURCES memory.cpp memory_trials.cpp KEYS trainer.micro_batch=auto trainer.recompute)
