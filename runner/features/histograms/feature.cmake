ddprun_feature(SOURCES histograms.cpp SECTION KEYS histograms)
