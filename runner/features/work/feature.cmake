ddprun_feature(SOURCES flop_count.cpp work_meter.cpp SECTION KEYS trainer.peak_tflops)
