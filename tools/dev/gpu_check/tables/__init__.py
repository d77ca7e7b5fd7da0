"""The tables of tools/gpu_check. Each has a name, a weight (of the time), the least seconds that it takes, the data that it
needs ("mnist" or nothing), and measure(bench, share), which returns a gpu.table.Table."""
