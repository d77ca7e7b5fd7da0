ddprun_feature(SOURCES shard_check.cpp verify_shards.cpp SECTION KEYS trainer.verify_shards)
