# Run by CTest where it begins, before all tests. Several run at once: threads of LibTorch within one would wait for cores that the
# others have, and they wait by spinning, which took twenty times the CPU seconds of the work.
if(NOT DEFINED ENV{OMP_NUM_THREADS})
  set(ENV{OMP_NUM_THREADS} 1)
endif()
