find_package(ddprun 0.0 REQUIRED CONFIG)
