ddprun_feature(SOURCES system_rows.cpp SECTION KEYS trainer.system_metrics_seconds)
