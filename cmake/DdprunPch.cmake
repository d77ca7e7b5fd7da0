# ddprun_pch(<target>): compile the target with the precompiled LibTorch headers. A file that includes torch costs about 20 s
# without them. They are built once, by the target ddprun_pch_host, with the flags that all our targets share.
function(ddprun_pch target)
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")  # another macro would invalidate the shared header
  target_precompile_headers(${target} REUSE_FROM ddprun_pch_host)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # ccache preprocesses, then sees which header was used
  endif()
endfunction()
