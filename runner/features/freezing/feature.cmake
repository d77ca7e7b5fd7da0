ddprun_feature(SOURCES freezing.cpp SECTION KEYS pretrained.freeze pretrained.unfreeze)
